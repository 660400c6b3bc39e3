// The lanes of `map` and the bays of their tasks, as its loop keeps them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/map/claims.hpp"
#include "app/map/map.hpp"
#include "app/map/rest.hpp"
#include "base/time.hpp"
#include "plan/job/ending.hpp"
#include "port/claim_control.hpp"
#include "port/processes.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

struct MapLane {
  LaneGain gain;
  std::unique_ptr<port::ClaimDoor> door;
  std::vector<std::size_t> bays;
  unsigned busy = 0;
  bool leaving = false;                  // takes no further task
  bool gave_up = false;                  // on what lives of a task's group
  std::uint64_t asked_in = 0;            // the last round in which it was asked whether others want its GPUs
  unsigned renewals = 0;                 // of what its tasks are told of its GPUs
  LaneRest rest;

  bool holds() const { return gain.acquired.claim.is_held(); }
};

// A bay of the pool and the task on it.
struct MapBay {
  MapLane* lane = nullptr;
  unsigned rank = 0;                     // of those of its lane
  unsigned as_of = 0;                    // of its lane's renewals
  MapTask task;
  std::optional<plan::Life> life;        // as long as a task is here
  SteadyTime started{};
  std::chrono::nanoseconds took{};
  port::Ended how;
  bool cut_short = false;                // it was ended with all others
  std::optional<plan::Event> owed;       // came after the end of its command, of which we are still to hear
};

// Whether nothing of a lane can be given a later end any more.
bool is_ending(const MapLane& lane, const std::vector<MapBay>& bays);

// Of its tasks, which have a limit each: one may have been extended, or have begun before the others.
std::optional<SteadyTime> last_limit(const MapLane& lane, const std::vector<MapBay>& bays);

// What is left behind, once a round.
struct RestLook {
  std::vector<std::string> claims;       // that were asked for
  port::Strays left;
  std::optional<bool> by_nobodys;        // are there none of nobody's?
};

}  // namespace thole::app
