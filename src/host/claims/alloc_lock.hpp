// The short mutex of a state directory: one decision at a time, machine-wide.
//
// How this works. flock of the node `alloc`, held for microseconds and never while sleeping. Every trial lock of any node is
// taken under it, so that two processes probing the same node cannot mistake each other for an owner. All signals are
// blocked inside, because a process stopped there (Ctrl-Z) would stop everybody. SIGSTOP, the freezer and flock(1) in anybody's
// hands remain: whoever waits for long names the owner from /proc/locks, and after `give_up_after` he goes on without
// (fifo_unordered.cpp): the mutex keeps the order, the locks of the units alone keep exclusion.
#pragma once

#include <signal.h>

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/time.hpp"

namespace thole::host {

struct AllocPatience {
  Millis name_after{1500};       // then `stuck` is called, once, with a sentence that names the owner
  Millis give_up_after{5000};    // then AllocKept
  Millis* cost = nullptr;        // becomes how long it took to see who keeps it
  std::string* keeper = nullptr; // who was seen to keep it a moment ago, or not yet (empty): then the kernel is asked
};

// Somebody keeps `alloc`; says who.
class AllocKept : public Error {
 public:
  explicit AllocKept(Error&& error) : Error(std::move(error)) {}
};

// Sleeps; Error(interrupted) as soon as one of the descriptors is readable.
void rest(std::chrono::nanoseconds duration, std::span<const int> cancel);

// Inside from construction to destruction.
class AllocLock {
 public:
  AllocLock(int alloc_fd, const std::string& directory, const AllocPatience& patience,
            const std::function<void(const std::string&)>& stuck, std::span<const int> cancel = {});
  ~AllocLock();
  AllocLock(const AllocLock&) = delete;
  AllocLock& operator=(const AllocLock&) = delete;

 private:
  bool try_enter(int& reason);

  int fd_;
  sigset_t before_;
};

// How long one who waits has waited for alloc, in sum; a sixth of the time that passes comes back, so that a busy machine alone
// uses up nobody's patience, and who takes alloc again and again does. When it is over he only tries it, once each time, for
// a minute, and so does who comes after him in his process; then he has patience anew. Who keeps it is asked of the kernel
// every 10 s at most, and for a twentieth of the time where that takes long: hundreds who ask at each look would make one
// another wait for longer still. Who has had it since then knows that many have it in turn.
class AllocBudget {
 public:
  explicit AllocBudget(AllocPatience patience, SteadyTime tried_only_until = {})
      : patience_(patience), tried_only_until_(tried_only_until) {}
  AllocPatience left(SteadyTime now);
  void spend(Millis waited);     // ... and has it
  void give_up(SteadyTime now);
  SteadyTime tried_only_until() const { return tried_only_until_; }

 private:
  AllocPatience patience_;
  Millis spent_{0};
  std::optional<SteadyTime> asked_, described_;
  std::string keeper_;
  Millis cost_{0};                               // of the last time
  SteadyTime tried_only_until_;
};

}  // namespace thole::host
