// What tasks of a lane have left behind outside of their process groups: named and ended before the lane's GPUs are given
// back, in the steps of `thole run`: a moment to end by itself, TERM, after the patience KILL. What that does not end is
// given up.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

class LaneRest {
 public:
  using Tell = std::function<void(const std::vector<std::string>&)>;

  // Is nothing left (or given up)? Else the next step is taken where it is time; ask again at deadline(), and whenever the pool
  // wakes. `all`: no other task runs, so that whatever is there has been left by tasks of ours. Otherwise who does not show
  // in which claim it was started is waited for.
  bool is_over(port::TaskPool& pool, const std::string& claim, bool all, SteadyTime now, Millis patience, const Tell& tell);

  std::optional<SteadyTime> deadline() const { return deadline_; }
  void hurry(SteadyTime now);            // who waits has asked a second time: KILL

 private:
  enum class Step { none, settling, asked, killed };
  Step step_ = Step::none;
  std::optional<SteadyTime> deadline_, give_up_;
};

}  // namespace thole::app
