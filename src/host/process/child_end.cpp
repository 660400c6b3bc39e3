#include "host/process/child_end.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace thole::host {

namespace {

// Before it execs a child is counted with our memory: a smaller figure says nothing about the command.
long own_peak_kib() {
  rusage ours{};
  return ::getrusage(RUSAGE_SELF, &ours) == 0 ? ours.ru_maxrss : 0;
}

}  // namespace

model::HowEnded how_ended(const siginfo_t& seen) {
  model::HowEnded how;
  if (seen.si_code == CLD_EXITED) how.exit_code = seen.si_status;
  else how.signal = seen.si_status;
  how.core = seen.si_code == CLD_DUMPED;
  return how;
}

// The call has a fifth argument, which the C library leaves out.
std::optional<ChildEnd> ended_child(idtype_t which, pid_t pid) {
  siginfo_t seen{};
  rusage used{};
  errno = 0;
  const long refused = ::syscall(SYS_waitid, which, pid, &seen, WEXITED | WNOHANG | WNOWAIT, &used);
  if (refused != 0 || seen.si_pid == 0) return std::nullopt;
  ChildEnd end{seen.si_pid, how_ended(seen)};
  if (used.ru_maxrss > own_peak_kib()) end.how.peak_memory_kib = static_cast<std::uint64_t>(used.ru_maxrss);
  return end;
}

void bury_child(pid_t pid) { ::waitpid(pid, nullptr, WNOHANG); }

}  // namespace thole::host
