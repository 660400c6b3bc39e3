// Whether a signal that asks us to end is the user once more, and hurries.
#pragma once

#include <optional>

#include "base/time.hpp"
#include "model/command.hpp"

namespace thole::plan {

// One asking may be told twice: timeout(1) signals its child and then its group, a terminal that closes has its shell and the
// kernel tell, and so does whoever signals a tree. Nor does a hang-up say that somebody waits.
class Impatience {
 public:
  void asked(SteadyTime now) { asked_ = now; }

  bool hurries(model::Signal signal, SteadyTime now) const {
    return signal != model::Signal::hang_up && (!asked_ || now - *asked_ >= told_twice_within);
  }

 private:
  static constexpr Millis told_twice_within{300};              // a quick second Ctrl-C comes after 100 to 300 ms; then a third
  std::optional<SteadyTime> asked_;
};

}  // namespace thole::plan
