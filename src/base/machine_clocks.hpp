// The clocks of the machine: those of a time namespace are ahead of them, or behind.
#pragma once

#include <chrono>

#include "base/time.hpp"

namespace thole {

// By how much ours are ahead. A program does not change that under its threads.
struct ClocksAhead {
  std::chrono::nanoseconds boottime{0}, monotonic{0};
};
const ClocksAhead& clocks_ahead();

Millis since_boot();                             // of the machine, the same in every time namespace

}  // namespace thole
