// A pause that is of no length that anybody could know before. Who looks again and again at equal intervals may do so in step
// with something that comes and goes as regularly, and never see it gone.
#pragma once

#include <cstdint>

#include "base/time.hpp"

namespace thole {

// At least `soonest` and less than `latest`; the nanoseconds of `now` decide, and `salt`, that two do not draw alike.
inline Millis odd_pause(Millis soonest, Millis latest, SteadyTime now, std::uint64_t salt) {
  // Fibonacci hashing.
  const auto odd = (static_cast<std::uint64_t>(now.time_since_epoch().count()) + salt) * 0x9e3779b97f4a7c15u;
  return soonest + Millis((odd >> 32) % static_cast<std::uint64_t>((latest - soonest).count()));
}

}  // namespace thole
