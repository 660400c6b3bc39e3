// A timer of the kernel on the time of day; it ends at once when the clock is set.
#pragma once

#include "base/fd.hpp"
#include "port/wall_alarm.hpp"

namespace thole::host {

class TimerAlarm final : public port::WallAlarm {
 public:
  TimerAlarm();
  int fd() const override { return timer_.get(); }
  void set(std::optional<WallTime> when) override;

 private:
  Fd timer_;
};

}  // namespace thole::host
