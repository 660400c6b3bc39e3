#include "host/process/witness.hpp"

#include <poll.h>
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

// The witness's life: forget what is pending whenever SIGRTMAX comes; end with the supervisor. It keeps no descriptor, lest it
// hold the claim, the far end of a pipe or the terminal.
[[noreturn]] void be_witness(pid_t supervisor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "thole-witness");
  if (::getppid() != supervisor) ::_exit(0);
  ::syscall(SYS_close_range, 0u, ~0u, 0u);
  sigset_t forget, others;
  sigemptyset(&forget);
  sigaddset(&forget, SIGRTMAX);
  sigfillset(&others);
  const timespec at_once = {};
  for (;;) {
    if (::sigwaitinfo(&forget, nullptr) < 0) continue;
    while (::sigtimedwait(&others, nullptr, &at_once) > 0 || errno == EINTR) errno = 0;
  }
}

}  // namespace

Witness::Witness() {
  Pipe bare = make_pipe();
  const pid_t supervisor = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) be_witness(supervisor);
  bare_ = std::move(bare.read);
}

Witness::~Witness() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

// A witness that has not run since its birth still has copies of the claim's locks. After a command of a millisecond that is
// possible; else this does not wait, and so the witness's death delays nobody.
void Witness::dismiss() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  pollfd watched{bare_.get(), 0, 0};
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {}
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
  ::kill(pid_, SIGRTMAX);
  // Until it has forgotten, the next signal of this kind would look as if the group had got it, and would be lost.
  for (int ms = 0; ms < forget_ms && (pending() & bit) != 0; ++ms) ::poll(nullptr, 0, 1);
  return true;
}

}  // namespace thole::host
