// Port: the time of day and the steady clock.
#pragma once

#include "base/time.hpp"

namespace thole::port {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime wall() const = 0;
  virtual SteadyTime steady() const = 0;
};

}  // namespace thole::port
