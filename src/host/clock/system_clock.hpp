// The kernel's clocks.
#pragma once

#include "port/clock.hpp"

namespace thole::host {

class SystemClock final : public port::Clock {
 public:
  WallTime wall() const override {
    return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now());
  }
  SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace thole::host
