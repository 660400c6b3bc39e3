#include "app/map/bays.hpp"

#include <algorithm>

namespace thole::app {

bool is_ending(const MapLane& lane, const std::vector<MapBay>& bays) {
  const auto ends = [&](std::size_t number) { return !bays[number].life || bays[number].life->rung != plan::Rung::none; };
  return lane.busy > 0 && std::ranges::all_of(lane.bays, ends);
}

std::optional<SteadyTime> last_limit(const MapLane& lane, const std::vector<MapBay>& bays) {
  std::optional<SteadyTime> last;
  for (const std::size_t number : lane.bays)
    if (const auto& life = bays[number].life; life && life->limit && (!last || *life->limit > *last)) last = life->limit;
  return last;
}

}  // namespace thole::app
