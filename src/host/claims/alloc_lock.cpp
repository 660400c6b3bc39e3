#include "host/claims/alloc_lock.hpp"

#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {
namespace {

// "pid 1234 (python3, stopped) holds it"
std::string describe_owner(int fd) {
  for (pid_t pid : lockers_of(kernel_locks(), fd)) {
    auto process = process_state(pid);
    if (!process) return "pid " + std::to_string(pid) + " took it (gone; a child of it has it still)";
    bool stopped = process->state == 'T' || process->state == 't';
    return "pid " + std::to_string(pid) + " (" + printable(process->name) + (stopped ? ", stopped" : "") + ") holds it";
  }
  return "its owner is in another container";
}

void sleep_for(std::chrono::nanoseconds duration) {
  timespec time{0, static_cast<long>(duration.count())};
  ::nanosleep(&time, nullptr);
}

}  // namespace

bool AllocLock::try_enter() {
  // Blocked before the lock is taken: there is no moment in which a signal could stop the owner.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  int reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = reason;
  return false;
}

AllocLock::AllocLock(int alloc_fd, const std::string& directory, const AllocPatience& patience,
                     const std::function<void(const std::string&)>& stuck)
    : fd_(alloc_fd) {
  if (try_enter()) return;
  auto begin = std::chrono::steady_clock::now();
  bool named = false;
  std::chrono::nanoseconds pause{20'000};
  for (unsigned tries = 0;; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw Error(ErrorCode::unavailable, "cannot lock").about(directory + "/alloc").because(errno);
    // The owner is usually done within 40 us: yield first, sleep later.
    if (tries < 20) {
      ::sched_yield();
    } else {
      sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::nanoseconds{1'000'000});
    }
    if (try_enter()) return;
    int reason = errno;
    auto waited = std::chrono::steady_clock::now() - begin;
    if (!named && waited > patience.name_after) {
      named = true;
      if (stuck) stuck(directory + "/alloc is locked for too long: " + describe_owner(fd_));
    }
    if (waited > patience.give_up_after)
      throw Error(ErrorCode::unavailable, "somebody keeps the claims locked: " + describe_owner(fd_))
          .about(directory + "/alloc").hint("continue or end that process (kill -CONT, kill)");
    errno = reason;
  }
}

AllocLock::~AllocLock() {
  // LOCK_UN, not close: the descriptor is kept for the next time. `alloc` is no claim, and nobody inherits it by exec.
  ::flock(fd_, LOCK_UN);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace thole::host
