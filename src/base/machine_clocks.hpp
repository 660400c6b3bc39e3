// The clocks of the machine: those of a time namespace are ahead of them, or behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace thole {

// By how much ours are ahead. A program does not change that under its threads.
struct ClocksAhead {
  std::chrono::nanoseconds boottime{0}, monotonic{0};
  bool known = false;                            // else they are taken for the machine's
};
const ClocksAhead& clocks_ahead();

// A time of ours as all time namespaces of the machine count it.
inline Millis for_all(SteadyTime time) {
  return std::chrono::floor<Millis>(time.time_since_epoch() - clocks_ahead().monotonic);
}

Millis of_ticks(std::uint64_t ticks);            // as the kernel counts the start of a process
std::chrono::nanoseconds machine_up();           // since the machine's boot, the same in every time namespace
Millis since_boot();                             // the same
std::optional<Millis> known_since_boot();        // nothing where /proc does not tell what is ours and what is the machine's

}  // namespace thole
