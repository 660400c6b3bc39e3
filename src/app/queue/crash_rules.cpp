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

Ended end_in(const model::LaneBay& bay) {
  Ended ended;
  if (bay.exit_code >= 0) ended.ending.exit_code = bay.exit_code;
  if (bay.signal >= 0) ended.ending.signal = bay.signal;
  ended.ending.time_limit = (bay.flags & model::how_time_limit) != 0;
  ended.ending.taken_down = (bay.flags & model::how_taken_down) != 0;
  ended.ending.cancelled = (bay.flags & model::how_cancelled) != 0;
  ended.at = WallTime{Millis{bay.ended_ms}};
  if (bay.peak_memory_kib != 0) ended.peak_memory_kib = bay.peak_memory_kib;
  if (bay.peak_gpu_mib != 0) ended.peak_gpu_mib = bay.peak_gpu_mib;
  return ended;
}

}  // namespace

Remains remains_of(const model::Task& task, const model::LaneRecord* record, model::Boot boot, std::uint32_t store,
                   bool is_other) {
  using model::Boot;
  if (task.lane == model::lane_of_untold) return Untold{};
  if (!record || record->magic != model::lane_magic) return Unknown{};
  if (store != 0 && record->store != 0 && record->store != store) return Unknown{};
  for (const model::LaneBay& bay : record->bays) {
    const model::TaskPhase phase = bay.phase.load();
    if (phase == model::TaskPhase::none || bay.job != task.job || bay.task != task.index || bay.runs != task.runs)
      continue;
    const bool is_sealed = bay.seal == model::end_seal(bay);
    const bool sure = (boot == Boot::this_one && !is_other) || is_sealed;
    if (phase == model::TaskPhase::ended && !sure) return Unknown{boot};
    if (phase == model::TaskPhase::reached) return Unknown{boot, is_sealed ? std::optional(end_in(bay)) : std::nullopt};
    if (phase == model::TaskPhase::taken) return not_noted(boot, is_other);
    return end_in(bay);
  }
  return not_noted(boot, is_other);
}

const model::LaneBay* bay_of(const model::Task& task, const model::LaneRecord* record) {
  if (!record || record->magic != model::lane_magic) return nullptr;
  for (const model::LaneBay& bay : record->bays)
    if (bay.phase.load() != model::TaskPhase::none && bay.job == task.job && bay.task == task.index &&
        bay.runs == task.runs)
      return &bay;
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
