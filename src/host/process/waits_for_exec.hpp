// How long looks wait for processes that are at their execve(2).
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/time.hpp"

namespace thole::host {

// Anybody may have thousands of processes that are there for ever: their program comes from a file system of his own. So what
// looks wait for beyond what an exec mostly takes comes to three seconds, and to a quarter of the time after that; then each is
// waited for a few milliseconds.
class WaitsForExec {
 public:
  explicit WaitsForExec(SteadyTime now = std::chrono::steady_clock::now()) : last_(now) {}

  bool may_wait(SteadyTime now) {
    left_ = std::min(most, left_ + (now - std::exchange(last_, now)) / 4);
    return left_ > SteadyTime::duration{0};
  }
  void has_waited(SteadyTime::duration time) { left_ -= std::max(SteadyTime::duration{0}, time - an_exec); }

 private:
  static constexpr SteadyTime::duration an_exec = Millis{10}, most = Millis{3000};
  SteadyTime last_;
  SteadyTime::duration left_ = most;
};

}  // namespace thole::host
