#include "host/process/detached.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/inherited_descriptors.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/spawn_tables.hpp"

namespace thole::host {
namespace {

using std::chrono::steady_clock;

// Its first process may be kept by what it asks: the user's manager, a directory that does not answer. A sibling goes on
// waiting for it when we do not: a lane has tasks to look after.
constexpr Seconds patience_with_first{60}, patience_with_sibling{5};
constexpr int told_at = STDIN_FILENO;            // what goes on reads nothing; the first process has a pipe there

// What became of the first process: numbers only, as a sibling writes them into a pipe.
struct Ended {
  int failed = 0;                                // errno: it was not started
  bool is_late = false;
  int status = 0;
};

// What has been written into it so far, without the line's end.
std::string what_is_in(const Pipe& pipe) {
  char text[1024];
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const ssize_t n = ::read(pipe.read.get(), text, sizeof text);
  return std::string(trim(std::string_view(text, n > 0 ? static_cast<std::size_t>(n) : 0)));
}

// Allocates nothing: in a sibling, other threads of ours may have stopped in the middle of that.
Ended start_and_wait(const SpawnTables& tables, char* const* argv, char* const* environment) {
  Ended first;
  pid_t pid = 0;
  first.failed = ::posix_spawn(&pid, argv[0], &tables.actions, &tables.attributes, argv, environment);
  if (first.failed != 0) return first;
  const Fd end = open_pidfd(pid);
  first.is_late = end && !is_readable_by(end.get(), steady_clock::now() + patience_with_first);
  if (first.is_late) signal_child(pid, SIGKILL);
  while (::waitpid(pid, &first.status, first.is_late ? WNOHANG : 0) < 0 && errno == EINTR) {}   // it may be unable to end
  return first;
}

bool is_subreaper() {
  int is = 0;
  return ::prctl(PR_GET_CHILD_SUBREAPER, &is) == 0 && is != 0;
}

// Empty where there can be none: the first process of a pid namespace has no siblings, and is given all that is left in it.
// A sibling keeps none of our locks open, whatever becomes of us meanwhile.
template <class Work>
std::optional<Ended> by_sibling(const std::vector<int>& needed, const Work& work) {
  Pipe report = make_pipe();
  std::vector<int> ours = open_descriptors();
  std::erase_if(ours, [&](int fd) { return fd == report.write.get() || std::ranges::count(needed, fd) != 0; });
  const long sibling = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (sibling == 0) {
    for (int fd : ours) ::close(fd);
    const Ended first = work();
    ::_exit(::write(report.write.get(), &first, sizeof first) == sizeof first ? 0 : 1);
  }
  if (sibling < 0 && errno == EINVAL) return std::nullopt;
  if (sibling < 0) return Ended{.failed = errno};
  report.write.reset();
  Ended first{.failed = ECHILD};                 // it was killed
  if (!is_readable_by(report.read.get(), steady_clock::now() + patience_with_sibling)) first = {.is_late = true};
  else if (Ended told; ::read(report.read.get(), &told, sizeof told) == sizeof told) first = told;
  return first;
}

}  // namespace

std::optional<pid_t> run_detached(const BareCommand& command) {
  const Pipe complaints = make_pipe(), told = make_pipe();
  const std::vector<char*> argv = pointers(command.argv), environment = pointers(command.environment);
  SpawnTables tables;
  ::posix_spawn_file_actions_addopen(&tables.actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&tables.actions, told.write.get(), told_at);
  ::posix_spawn_file_actions_adddup2(&tables.actions, complaints.write.get(), 2);
  for (int fd : inherited_descriptors()) ::posix_spawn_file_actions_addclose(&tables.actions, fd);
  const auto work = [&] { return start_and_wait(tables, argv.data(), environment.data()); };
  std::optional<Ended> first;
  if (is_subreaper()) first = by_sibling({told.write.get(), complaints.write.get()}, work);
  if (!first) first = work();
  if (first->failed != 0) throw not_started("the runner", first->failed).about(command.argv.front());
  if (first->is_late)
    throw Error(ErrorCode::unavailable, "this does not get started")
        .about(printable(join(command.argv, " "), 200))
        .because(ETIMEDOUT);
  if (first->status != 0)
    throw Error(ErrorCode::unavailable, "the runner of the queue did not start").about(printable(what_is_in(complaints)));
  const std::optional<std::uint64_t> goes_on = parse_u64(what_is_in(told));
  return goes_on && *goes_on > 0 ? std::optional(static_cast<pid_t>(*goes_on)) : std::nullopt;
}

void tell_starter(pid_t goes_on) {
  static_cast<void>(write_all(told_at, std::to_string(goes_on) + "\n"));   // untold it is waited for a little longer
}

}  // namespace thole::host
