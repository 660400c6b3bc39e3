#include "app/queue/orphan_progress.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "app/queue/crash_rules.hpp"
#include "app/queue/job_names.hpp"
#include "base/machine_clocks.hpp"
#include "base/text.hpp"

namespace thole::app {
namespace {

constexpr Millis killed_again_after{10'000};

const model::EndingOfOrphan* ending_of(const model::Task& task, const model::LaneRecord* record) {
  const model::LaneBay* bay = bay_of(task, record);
  return bay ? &record->endings[static_cast<std::size_t>(bay - record->bays.data())] : nullptr;
}

}  // namespace

Millis after_step(unsigned steps, Millis patience) { return steps > last_step ? killed_again_after : patience; }

void OrphanProgress::take_up(Orphan& orphan) const {
  go_on_counting(orphan);
  go_on_ending(orphan);
}

// Its limit is ours now. Where its lane has noted nothing (somebody has removed that file) nobody knows how long it has stood,
// and it has no limit any more.
void OrphanProgress::go_on_counting(Orphan& orphan) const {
  const model::JobSpec spec = ports_.jobs.spec(orphan.task.job);
  orphan.patience = spec.patience;
  orphan.lingers = spec.linger;
  const std::optional<model::Job> job = job_of(ports_.jobs, orphan.task.job);
  const model::LaneBay* bay = bay_of(orphan.task, lane_record(orphan));
  if (bay) orphan.limit_clock = bay->limit_clock;
  if (!job || !job->terms.time || !bay) return;
  const Millis ran = model::has_run(orphan.limit_clock, since_start(orphan, *bay));
  orphan.limit = ports_.clock.steady() + (*job->terms.time - ran);
}

// By what the kernel says of its command, where the lane has noted that: a clock that somebody sets does not move it.
Millis OrphanProgress::since_start(const Orphan& orphan, const model::LaneBay& bay) const {
  const std::uint64_t ticks = orphan.run.identity.start_ticks;
  const Millis since = ticks == 0 ? ports_.clock.wall() - WallTime{Millis{bay.started_ms}}
                                  : since_boot() - of_ticks(ticks);
  return std::max(Millis{0}, since);
}

void OrphanProgress::pause(Orphan& orphan, bool paused) const {
  const SteadyTime now = ports_.clock.steady();
  const model::LaneBay* bay = bay_of(orphan.task, lane_record(orphan));
  if (bay && paused != model::is_of_paused(orphan.limit_clock)) {
    const Millis since = since_start(orphan, *bay);
    const Millis ran = model::has_run(orphan.limit_clock, since);
    orphan.limit_clock = model::limit_clock(paused, ran, since - ran);
    note(orphan);
  }
  if (paused && orphan.limit) {
    orphan.left = std::max(Millis{1}, std::chrono::duration_cast<Millis>(*orphan.limit - now));
    orphan.limit.reset();
  } else if (!paused && orphan.left > Millis{0}) {
    orphan.limit = now + std::exchange(orphan.left, Millis{0});
  }
}

// For the next runner. How many steps were told is written last: it says what the rest is.
void OrphanProgress::note(Orphan& orphan) const {
  const model::LaneBay* bay = bay_of(orphan.task, lane_record(orphan));
  const model::EndingOfOrphan* ending = ending_of(orphan.task, lane_record(orphan));
  if (!bay || !ending) return;
  const port::SeenRecord& record = *orphan.record;
  bool done = bay->limit_clock == orphan.limit_clock || record.write(bay->limit_clock, orphan.limit_clock);
  if (orphan.step > 0) {
    model::EndingOfOrphan told{};
    const unsigned why = orphan.over_time ? model::ending_for_limit : 0;
    const unsigned heard = orphan.was_told_to_end ? model::ending_was_heard : 0;
    model::put_ending(told, *bay, task_mark(secret_, orphan.task), for_all(orphan.told_step_at), why | heard);
    done = record.write_bytes(record.offset_of(ending), &told, sizeof told) && record.write(ending->steps, orphan.step) && done;
  }
  orphan.unwritten = !done;
}

void OrphanProgress::note_again(std::vector<Orphan>& orphans) {
  const auto is_unwritten = [](const Orphan& orphan) { return orphan.unwritten; };
  int refused = 0;
  for (Orphan& orphan : orphans) {
    if (!orphan.unwritten) continue;
    note(orphan);
    if (orphan.unwritten) refused = errno;
  }
  if (std::ranges::none_of(orphans, is_unwritten)) return unwritten_.over();
  unwritten_.met(fmt::format("how far what is left of killed lanes is ended, or paused, is known to this runner alone: their "
                             "records cannot be written: {}", std::strerror(refused)), ports_.say);
}

// What a runner that has ended has begun, at the time at which that one would have gone on.
void OrphanProgress::go_on_ending(Orphan& orphan) const {
  const model::EndingOfOrphan* ending = ending_of(orphan.task, lane_record(orphan));
  const unsigned steps = ending ? ending->steps.load() : 0;
  if (steps == 0 || steps > last_step + 1 || ending->job != orphan.task.job || ending->task != orphan.task.index ||
      ending->runs != orphan.task.runs)
    return;
  const auto is_of = [&](const std::string& mark) {
    return ending->run == model::run_seal(*bay_of(orphan.task, lane_record(orphan)), mark);
  };
  const std::string mark = task_mark(secret_, orphan.task);
  if (!is_of(mark) && !is_of(mark + ports_.queue)) return;   // the latter: by an earlier build
  orphan.step = steps;
  orphan.over_time = (ending->flags & model::ending_for_limit) != 0;
  orphan.was_told_to_end = (ending->flags & model::ending_was_heard) != 0;
  const Millis wait = after_step(orphan.step, orphan.patience);
  const SteadyTime now = ports_.clock.steady();
  const Millis ago = for_all(now) - Millis{ending->told_ms};
  orphan.told_step_at = now - std::max(Millis{0}, ago);
  orphan.next_step = orphan.told_step_at + wait;
}

}  // namespace thole::app
