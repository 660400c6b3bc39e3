// What stands of a task in its place of its lane's record (model/lane_record.hpp).
#pragma once

#include "base/time.hpp"
#include "model/lane_record.hpp"
#include "port/job_store.hpp"

namespace thole::app {

// Taken, and not begun yet.
void note_taken(model::LaneRecord& record, const port::TakenTask& taken, WallTime started);

struct HowItEnded {
  int exit_code = -1, signal = -1;               // -1: not so
  unsigned flags = 0;                            // model::how_…
  std::uint64_t peak_memory_kib = 0;
};

// Sealed: who finds it after this lane was killed knows that it is whole.
void note_ended(model::LanePlace& place, const HowItEnded& how, WallTime ended);

}  // namespace thole::app
