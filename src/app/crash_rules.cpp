#include "app/crash_rules.hpp"

namespace thole::app {

Remains remains_of(const model::Task& task, const model::LaneRecord* record, std::string_view boot) {
  if (!record || record->magic != model::lane_magic) return Unknown{};
  const bool same_boot = std::string_view(record->boot.data()) == boot;
  for (const model::LanePlace& place : record->places) {
    const model::TaskPhase phase = place.phase.load();
    if (phase == model::TaskPhase::none || place.job != task.job || place.task != task.index || place.runs != task.runs) continue;
    if (phase == model::TaskPhase::taken) return NeverBegan{};
    if (phase == model::TaskPhase::reached) return Unknown{same_boot};
    Ended ended;
    if (place.exit_code >= 0) ended.ending.exit_code = place.exit_code;
    if (place.signal >= 0) ended.ending.signal = place.signal;
    ended.ending.time_limit = (place.flags & model::how_time_limit) != 0;
    ended.ending.cancelled = (place.flags & model::how_cancelled) != 0;
    ended.at = WallTime{Millis{place.ended_ms}};
    if (place.peak_memory_kib != 0) ended.peak_memory_kib = place.peak_memory_kib;
    return ended;
  }
  return NeverBegan{};
}

port::TaskEnd end_of(const model::Task& task, const Remains& remains, const model::Retry& retry, WallTime now) {
  port::TaskEnd end;
  end.job = task.job;
  end.index = task.index;
  end.runs = task.runs;
  end.at = now;
  if (std::holds_alternative<NeverBegan>(remains)) {
    end.state = model::TaskState::queued;
    end.unstarted = true;
    return end;
  }
  plan::TaskEnding ending;
  if (const auto* seen = std::get_if<Ended>(&remains)) {
    ending = seen->ending;
    end.at = seen->at;
    if (seen->peak_memory_kib) end.peak_memory_mib = (*seen->peak_memory_kib + 1023) / 1024;
  } else {
    ending.lost = true;
  }
  const plan::TaskFate fate = plan::fate_of(ending, retry, task.tries, now);
  end.state = fate.state;
  end.ready = fate.ready;
  end.reason = fate.reason;
  end.exit_code = ending.exit_code;
  end.signal = ending.signal;
  return end;
}

}  // namespace thole::app
