// Waking whoever waits for a descriptor, in the same process.
#pragma once

#include "base/fd.hpp"

namespace thole {

// A descriptor that is readable once somebody has rung, until it is silenced. From any thread.
class Bell {
 public:
  Bell();                                        // throws where no descriptor can be had
  int fd() const { return fd_.get(); }
  void ring();
  void silence();

 private:
  Fd fd_;
};

}  // namespace thole
