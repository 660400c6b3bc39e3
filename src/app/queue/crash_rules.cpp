#include "app/queue/crash_rules.hpp"

#include "app/queue/task_end.hpp"

namespace thole::app {

namespace {

// What the record of a lane does not say has begun.
Remains not_noted(model::Boot boot, bool is_other) {
  if (boot == model::Boot::another) return Unknown{boot};
  if (boot == model::Boot::untold) return Untold{};
  if (is_other) return Unknown{};
  return NeverBegan{};
}

Ended end_in(const model::LanePlace& place) {
  Ended ended;
  if (place.exit_code >= 0) ended.ending.exit_code = place.exit_code;
  if (place.signal >= 0) ended.ending.signal = place.signal;
  ended.ending.time_limit = (place.flags & model::how_time_limit) != 0;
  ended.ending.taken_down = (place.flags & model::how_taken_down) != 0;
  ended.ending.cancelled = (place.flags & model::how_cancelled) != 0;
  ended.at = WallTime{Millis{place.ended_ms}};
  if (place.peak_memory_kib != 0) ended.peak_memory_kib = place.peak_memory_kib;
  if (place.peak_gpu_mib != 0) ended.peak_gpu_mib = place.peak_gpu_mib;
  return ended;
}

}  // namespace

Remains remains_of(const model::Task& task, const model::LaneRecord* record, model::Boot boot, std::uint32_t store,
                   bool is_other) {
  using model::Boot;
  if (task.lane == model::lane_of_untold) return Untold{};
  if (!record || record->magic != model::lane_magic) return Unknown{};
  if (store != 0 && record->store != 0 && record->store != store) return Unknown{};
  for (const model::LanePlace& place : record->places) {
    const model::TaskPhase phase = place.phase.load();
    if (phase == model::TaskPhase::none || place.job != task.job || place.task != task.index || place.runs != task.runs)
      continue;
    const bool is_sealed = place.seal == model::end_seal(place);
    const bool sure = (boot == Boot::this_one && !is_other) || is_sealed;
    if (phase == model::TaskPhase::ended && !sure) return Unknown{boot};
    if (phase == model::TaskPhase::reached) return Unknown{boot, is_sealed ? std::optional(end_in(place)) : std::nullopt};
    if (phase == model::TaskPhase::taken) return not_noted(boot, is_other);
    return end_in(place);
  }
  return not_noted(boot, is_other);
}

const model::LanePlace* place_of(const model::Task& task, const model::LaneRecord* record) {
  if (!record || record->magic != model::lane_magic) return nullptr;
  for (const model::LanePlace& place : record->places)
    if (place.phase.load() != model::TaskPhase::none && place.job == task.job && place.task == task.index &&
        place.runs == task.runs)
      return &place;
  return nullptr;
}

port::TaskEnd end_of(const model::Task& task, const Remains& remains, const model::Retry& retry, WallTime now) {
  if (std::holds_alternative<NeverBegan>(remains)) return unstarted(task, now);
  const auto* seen = std::get_if<Ended>(&remains);
  if (const auto* unknown = std::get_if<Unknown>(&remains); unknown && unknown->command) seen = &*unknown->command;
  plan::TaskEnding lost;
  lost.lost = true;
  port::TaskEnd end = judged(task, seen ? seen->ending : lost, retry, now);
  if (seen) end.at = seen->at;
  if (seen && seen->peak_memory_kib) end.peak_memory_mib = mib_of_kib(*seen->peak_memory_kib);
  if (seen) end.peak_gpu_memory_mib = seen->peak_gpu_mib;
  return end;
}

}  // namespace thole::app
