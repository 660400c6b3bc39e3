// A machine as a file that can be used elsewhere: what `thole capture` writes.
#pragma once

#include "model/machine.hpp"

namespace thole::app {

struct CaptureChoices {
  bool use = false;        // keep the present use and health; without it every GPU is idle and healthy
  bool anonymous = false;  // no machine name, no user names, no command lines, UUIDs numbered
};

model::Machine captured(model::Machine machine, const CaptureChoices& choices);

}  // namespace thole::app
