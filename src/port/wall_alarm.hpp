// Port: a descriptor that tells when a time of day has come, or when somebody has set the clock.
#pragma once

#include <optional>

#include "base/time.hpp"

namespace thole::port {

class WallAlarm {
 public:
  virtual ~WallAlarm() = default;
  virtual int fd() const = 0;                    // readable when it is time, or when the clock jumped: look at the clock again
  virtual void set(std::optional<WallTime> when) = 0;   // takes a past alarm back
};

}  // namespace thole::port
