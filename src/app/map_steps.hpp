// The steps towards the end of a task of `map`, and of what that leaves behind in its process group: as `thole run` takes them.
// Asked by its time limit or at its claim's door it gets INT, TERM and KILL, each after the patience; with all others, TERM and
// KILL. What it leaves behind has a moment to end by itself, is named, and gets TERM and KILL. What even KILL does not end
// (another user's process, a hung driver) is given up. A command is waited for as long as it lives, but when all are to end.
#pragma once

#include <optional>

#include "base/time.hpp"

namespace thole::app {

class TaskSteps {
 public:
  enum class Phase { idle, running, settling, ending_rest };

  // What is to be done, in this order.
  struct Step {
    bool name = false;                   // those who live of the group
    int signal = 0;                      // to the group; 0: none
    bool again = false;                  // that has got it before
    bool give_up = false;                // what lives of it: it is over
  };

  void begin();
  void limit(SteadyTime until) { deadline_ = until; }      // of a task that is not asked yet
  void left(SteadyTime now);                               // the command has ended, its group has not
  void over() { *this = TaskSteps(); }
  void later(SteadyTime::duration by);                     // we have been stopped as long as that

  Step passed(SteadyTime now, Millis patience);            // the deadline has
  Step ask(SteadyTime now, Millis patience);               // this one, which is not asked yet
  Step end(bool at_once, SteadyTime now, Millis patience); // with all others

  Phase phase() const { return phase_; }
  bool is_asked() const { return sent_ > 0; }
  std::optional<SteadyTime> deadline() const { return deadline_; }

 private:
  Step next(SteadyTime now, Millis patience);
  Step end_rest(SteadyTime now, Millis patience);

  Phase phase_ = Phase::idle;
  int sent_ = 0;                         // of INT, TERM and KILL: up to where
  bool all_end_ = false;
  std::optional<SteadyTime> deadline_, give_up_;
};

}  // namespace thole::app
