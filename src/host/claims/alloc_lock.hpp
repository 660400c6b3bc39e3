// The short mutex of a state directory: one decision at a time, machine-wide.
//
// How this works. flock of the node `alloc`, held for microseconds and never while sleeping. Every trial lock of any node is
// taken under it, so that two processes probing the same node cannot mistake each other for an owner. All signals are
// blocked inside, because a process stopped there (Ctrl-Z) would stop everybody. SIGSTOP and the freezer remain: whoever waits
// longer than two seconds names the owner from /proc/locks, and gives up with an error after `patience`.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "base/time.hpp"

namespace thole::host {

struct AllocPatience {
  Millis name_after{2000};       // then `stuck` is called, once, with a sentence that names the owner
  Millis give_up_after{30000};   // then Error(unavailable)
};

// Inside from construction to destruction.
class AllocLock {
 public:
  AllocLock(int alloc_fd, const std::string& directory, const AllocPatience& patience,
            const std::function<void(const std::string&)>& stuck);
  ~AllocLock();
  AllocLock(const AllocLock&) = delete;
  AllocLock& operator=(const AllocLock&) = delete;

 private:
  bool try_enter();

  int fd_;
  sigset_t before_;
};

}  // namespace thole::host
