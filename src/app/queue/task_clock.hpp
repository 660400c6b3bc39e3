// How long a task has run: by the steady clock, which nobody sets, and it stands still while the task is paused.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.hpp"
#include "model/lane_record.hpp"

namespace thole::app {

class TaskClock {
 public:
  TaskClock() = default;
  explicit TaskClock(SteadyTime now) : began_(now) {}

  void pause(bool paused, SteadyTime now) {
    if (paused) paused_at_ = now;
    else stood_ += since(paused_at_, now);
    paused_ = paused;
  }

  void extend(Millis by) { stood_ += by; }         // its limit is that much later: as if it had stood so long
  bool paused() const { return paused_; }
  Millis ran(SteadyTime now) const { return since(began_, paused_ ? paused_at_ : now) - stood_; }
  Millis stood() const { return stood_; }          // in all pauses that are over, and by extensions
  std::int32_t for_record(SteadyTime now) const {  // model::LaneBay::limit_clock
    return model::limit_clock(paused_, since(began_, now) - stood_, stood_);
  }

 private:
  static Millis since(SteadyTime then, SteadyTime now) { return std::chrono::duration_cast<Millis>(now - then); }

  SteadyTime began_{}, paused_at_{};
  Millis stood_{0};
  bool paused_ = false;
};

}  // namespace thole::app
