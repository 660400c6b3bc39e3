#include "app/lane_place.hpp"

namespace thole::app {

namespace {

std::int64_t ms_of(WallTime time) { return time.time_since_epoch().count(); }

}  // namespace

void note_taken(model::LaneRecord& record, const port::TakenTask& taken, WallTime started) {
  model::LanePlace& place = record.places[taken.place];
  place.phase.store(model::TaskPhase::none);     // the fields below are of nobody while they change
  place.job = taken.job;
  place.task = taken.index;
  place.runs = taken.runs;
  place.pid = place.limit_clock = 0;
  record.commands[taken.place] = {};
  place.peak_memory_kib = place.peak_gpu_mib = 0;
  place.started_ms = ms_of(started);
  place.phase.store(model::TaskPhase::taken);
}

void note_ended(model::LanePlace& place, const HowItEnded& how, WallTime ended) {
  place.exit_code = how.exit_code;
  place.signal = how.signal;
  place.flags = how.flags;
  place.ended_ms = ms_of(ended);
  place.peak_memory_kib = how.peak_memory_kib;
  place.seal = model::end_seal(place);
  place.phase.store(model::TaskPhase::ended);
}

}  // namespace thole::app
