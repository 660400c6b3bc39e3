// What a command line can say about failed tasks and the end of a `map`.
#pragma once

#include <string>

#include "plan/job/halt.hpp"
#include "plan/job/job_log.hpp"

namespace thole::app {

struct MapWishes {
  unsigned tries = 1;
  plan::Halt halt;
  std::string joblog;                    // "" = none
  plan::Resume resume = plan::Resume::none;
};

}  // namespace thole::app
