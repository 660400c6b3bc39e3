#include "host/process/witness.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr int grace_ms = 30;  // for senders that go from process to process; a person does not notice it
constexpr int forget_ms = 1000;  // a busy machine may not run the witness at once

#if defined(__x86_64__) && !defined(THOLE_SANITIZED)
constexpr int how_born = CLONE_VM;
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long fourth asm("r10") = d;
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__) && !defined(THOLE_SANITIZED)
constexpr int how_born = CLONE_VM;
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
#else
constexpr int how_born = 0;  // a copy of our memory: slower, and the libc's own calls do
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  const long result = ::syscall(number, a, b, c, d);
  return result < 0 ? -errno : result;
}
#endif

template <class T>
long at(const T& object) { return reinterpret_cast<long>(&object); }

// The witness's life: forget the signal that comes with SIGRTMAX whenever that does; end with the supervisor. It keeps no
// descriptor, lest it hold the claim, the far end of a pipe or the terminal. It shares the supervisor's memory, for copying
// that took a tenth of the time of `thole run -- true`; so it must not touch errno, which is why the calls are bare.
int be_witness(void* given) {
  const long supervisor = reinterpret_cast<long>(given);
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  call(SYS_prctl, PR_SET_NAME, reinterpret_cast<long>("witness"));   // not to be found by who looks for thole (pkill)
  if (call(SYS_getppid) != supervisor) call(SYS_exit_group, 0);
  call(SYS_close_range, 0, 0xffffffff, 0);
  const std::uint64_t forget = std::uint64_t{1} << (SIGRTMAX - 1);
  const timespec at_once = {};
  siginfo_t told;
  for (;;) {
    if (call(SYS_rt_sigtimedwait, at(forget), at(told), 0, sizeof forget) < 0) continue;
    const std::uint64_t one = std::uint64_t{1} << (told.si_value.sival_int - 1);
    while (const long got = call(SYS_rt_sigtimedwait, at(one), 0, at(at_once), sizeof one))
      if (got < 0 && got != -EINTR) break;
  }
}

}  // namespace

Witness::Witness() {
  void* stack = stack_.end();
  if (stack) pid_ = ::clone(be_witness, stack, how_born | SIGCHLD, reinterpret_cast<void*>(static_cast<long>(::getpid())));
}

// It ends at once: its memory is ours, and it has no descriptor. (One that has not run since its birth still has copies of the
// claim's locks; after a command of a millisecond that is possible.)
void Witness::dismiss() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
}

std::uint64_t Witness::pending() const {
  auto status = read_file("/proc/" + std::to_string(pid_) + "/status", 16384);
  if (!status) return 0;
  for (auto line : split_lines(*status))
    if (line.starts_with("ShdPnd:")) return parse_u64(trim(line.substr(7)), 16).value_or(0);
  return 0;
}

bool Witness::saw(int signal) {
  if (pid_ <= 0) return false;
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  bool seen = (pending() & bit) != 0;
  if (!seen) {
    ::poll(nullptr, 0, grace_ms);
    seen = (pending() & bit) != 0;
  }
  if (!seen) return false;
  sigval which{};
  which.sival_int = signal;                      // others that have come meanwhile are asked about yet
  ::sigqueue(pid_, SIGRTMAX, which);
  // Until it has forgotten, the next signal of this kind would look as if the group had got it, and would be lost.
  for (int ms = 0; ms < forget_ms && (pending() & bit) != 0; ++ms) ::poll(nullptr, 0, 1);
  return true;
}

}  // namespace thole::host
