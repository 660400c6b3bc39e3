#include "host/claims/alloc_lock.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {
namespace {

constexpr Seconds tried_only{60}, described_again_after{10};
constexpr Millis one_try{5};
constexpr int share_of_asking = 20;
constexpr std::chrono::nanoseconds longest_pause{8'000'000};

}  // namespace

void rest(std::chrono::nanoseconds duration, std::span<const int> cancel) {
  std::vector<pollfd> polled;
  for (int fd : cancel) polled.push_back({fd, POLLIN, 0});
  timespec time{0, static_cast<long>(duration.count())};
  if (::ppoll(polled.data(), polled.size(), &time, nullptr) > 0)
    throw Error(ErrorCode::interrupted, "the wait was interrupted");
}

bool AllocLock::try_enter(int& reason) {
  // Blocked before the lock is taken: there is no moment in which a signal could stop the owner.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  return false;
}

AllocLock::AllocLock(int alloc_fd, const std::string& directory, const AllocPatience& patience,
                     const std::function<void(const std::string&)>& stuck, std::span<const int> cancel)
    : fd_(alloc_fd) {
  int reason = 0;
  if (try_enter(reason)) return;
  const auto begin = std::chrono::steady_clock::now();
  std::string seen;
  std::string& keeper = patience.keeper ? *patience.keeper : seen;
  const auto kept = [&] {
    const auto asked = std::chrono::steady_clock::now();
    if (keeper.empty()) {
      keeper = describe_keeper(fd_);
      if (patience.cost) *patience.cost = std::chrono::ceil<Millis>(std::chrono::steady_clock::now() - asked);
    }
    return "somebody keeps the claims locked: " + keeper;
  };
  bool named = false;
  std::chrono::nanoseconds pause{20'000};
  for (unsigned tries = 0;; ++tries) {
    if (reason != EWOULDBLOCK && reason != EINTR)
      throw Error(ErrorCode::unavailable, "cannot lock").about(directory + "/alloc").because(reason);
    // The owner is usually done within 40 us: yield first, sleep later, and no longer than has been waited already. Hundreds
    // who try every millisecond keep the owner from his processor.
    if (tries < 20) {
      ::sched_yield();
    } else {
      rest(pause, cancel);
      pause = std::min(pause * 2, longest_pause);
    }
    if (try_enter(reason)) return;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (!named && waited > patience.name_after) {
      named = true;
      if (stuck) stuck(kept() + ": " + directory + "/alloc");
    }
    if (waited > patience.give_up_after)
      throw AllocKept(Error(ErrorCode::unavailable, kept())
                          .about(directory + "/alloc")
                          .hint("continue or end that process (kill -CONT, kill); if none has it: sudo thole init"));
  }
}

AllocLock::~AllocLock() {
  // LOCK_UN, not close: the descriptor is kept for the next time. `alloc` is no claim, and nobody inherits it by exec.
  ::flock(fd_, LOCK_UN);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

AllocPatience AllocBudget::left(SteadyTime now) {
  if (asked_) spent_ = std::max(Millis{0}, spent_ - std::chrono::duration_cast<Millis>(now - *asked_) / 6);
  asked_ = now;
  if (described_ && now - *described_ >= std::max<Millis>(described_again_after, cost_ * share_of_asking)) {
    described_.reset();
    keeper_.clear();
  }
  if (!described_ && !keeper_.empty()) described_ = now;
  if (now < tried_only_until_) return {patience_.give_up_after, one_try, &cost_, &keeper_};
  return {std::max(Millis{0}, patience_.name_after - spent_), std::max(one_try, patience_.give_up_after - spent_), &cost_,
          &keeper_};
}

void AllocBudget::spend(Millis waited) {
  spent_ += waited;
  if (!keeper_.empty()) keeper_ = kept_in_turn;
}

void AllocBudget::give_up(SteadyTime now) {
  if (now < tried_only_until_) return;
  tried_only_until_ = now + tried_only;
  spent_ = Millis{0};
}

}  // namespace thole::host
