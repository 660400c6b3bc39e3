#include "app/orphans.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "app/job_names.hpp"
#include "app/notify.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr Millis killed_again_after{10'000};

bool any_ended(const std::vector<Fd>& processes) { return std::ranges::any_of(processes, is_readable, &Fd::get); }

}  // namespace

// Its lock is looked at first: what nobody has locked changes no more, and what is recorded of it after that is all there is.
// A child on its way to execve outlives its lane, and has the lock, also of a task that has not begun by its record.
void Orphans::settle(const model::Task& task, model::LaneRecord* record) {
  Orphan orphan{.task = task, .lock = std::move(ports_.lanes.look_at(static_cast<unsigned>(task.lane)).end)};
  const Remains remains = remains_of(task, record, ports_.boot, store_);
  const auto* unknown = std::get_if<Unknown>(&remains);
  if (std::holds_alternative<Ended>(remains) || (unknown && !unknown->same_boot)) return record_end(task, remains);
  if (unknown) orphan.processes = living(task);
  if (orphan.processes.empty() && !orphan.lock) return record_end(task, remains);
  go_on_counting(orphan, record);
  orphans_.push_back(std::move(orphan));
}

// Its limit is ours now. Where its lane has noted nothing (somebody has removed that file) nobody knows how long it has stood,
// and it has no limit any more.
void Orphans::go_on_counting(Orphan& orphan, model::LaneRecord* record) {
  orphan.patience = ports_.jobs.spec(orphan.task.job).patience;
  const std::optional<model::Job> job = job_of(ports_.jobs, orphan.task.job);
  const model::LanePlace* place = place_of(orphan.task, record);
  if (!job || !job->terms.time || !place) return;
  const Millis ran = model::has_run(*place, ports_.clock.wall() - WallTime{Millis{place->started_ms}});
  orphan.limit = std::chrono::steady_clock::now() + (*job->terms.time - ran);
}

// Its record says so too, for the next runner. What is taken up is told anew what the store says of it: while nobody looked
// after it a pause may have begun or ended, and what has a session of its own stands still where its lane has stopped it.
void Orphans::pause(Orphan& orphan, bool paused) {
  const SteadyTime now = std::chrono::steady_clock::now();
  ports_.lanes.signal_bearers(trace_of(orphan.task), paused ? SIGSTOP : SIGCONT);
  const port::LaneView lane = ports_.lanes.look_at(static_cast<unsigned>(orphan.task.lane));
  model::LanePlace* place = place_of(orphan.task, lane.record.get());
  if (place && paused != (place->limit_clock < 0)) {
    const Millis since_start = ports_.clock.wall() - WallTime{Millis{place->started_ms}};
    const Millis ran = model::has_run(*place, since_start);
    place->limit_clock = model::limit_clock(paused, ran, since_start - ran);
  }
  if (paused && orphan.limit) {
    orphan.left = std::max(Millis{1}, std::chrono::duration_cast<Millis>(*orphan.limit - now));
    orphan.limit.reset();
  } else if (!paused && orphan.left > Millis{0}) {
    orphan.limit = now + std::exchange(orphan.left, Millis{0});
  }
  orphan.paused = paused;
}

void Orphans::next_step_against(Orphan& orphan) {
  static constexpr int steps[] = {SIGINT, SIGTERM, SIGKILL};
  const int signal = steps[std::min(orphan.step++, 2u)];
  const port::RunTrace run = trace_of(orphan.task);
  ports_.lanes.signal_bearers(run, signal);
  if (signal != SIGKILL) ports_.lanes.signal_bearers(run, SIGCONT);   // a stopped one must run to hear it
  orphan.next_step = std::chrono::steady_clock::now() + (signal == SIGKILL ? killed_again_after : orphan.patience);
}

void Orphans::record_end(const model::Task& task, const Remains& remains, bool over_time) {
  const model::JobSpec spec = ports_.jobs.spec(task.job);
  const WallTime now = ports_.clock.wall();
  port::TaskEnd end = end_of(task, remains, spec.retry, now);
  if (over_time && std::holds_alternative<Unknown>(remains)) end.reason = "ended at its time limit, after " + end.reason;
  ports_.say(fmt::format("job {}.{}: its lane died; {}", task.job, task.index, model::to_string(end.state)));
  const port::Turn turn = ports_.jobs.turn({&end, 1}, std::nullopt, now);
  for (model::JobId job : turn.ended) notify(ports_, job);
}

// Its mark, and what its lane has noted of its command.
port::RunTrace Orphans::trace_of(const model::Task& task) {
  port::RunTrace run{.mark = mark_of(task)};
  const port::LaneView lane = ports_.lanes.look_at(static_cast<unsigned>(task.lane));
  const model::LanePlace* place = place_of(task, lane.record.get());
  if (!place || std::string_view(lane.record->boot.data()) != ports_.boot) return run;
  run.command = place->pid;
  run.identity = lane.record->commands[static_cast<std::size_t>(place - lane.record->places.data())];
  return run;
}

// What lives of a run of which the lane's files say nothing: its processes, and a lane that has lost its files.
std::vector<Fd> Orphans::living(const model::Task& task) {
  std::vector<Fd> processes = ports_.lanes.bearers(trace_of(task));
  for (Fd& holder : ports_.lanes.holders(static_cast<unsigned>(task.lane))) processes.push_back(std::move(holder));
  return processes;
}

void Orphans::look_after() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (std::size_t i = orphans_.size(); i-- > 0;) {
    Orphan& orphan = orphans_[i];
    const auto task = ports_.jobs.task(orphan.task.job, orphan.task.index);   // a lane without files may have told its end
    if (any_ended(orphan.processes)) orphan.processes = living(orphan.task);
    if (orphan.lock && is_readable(orphan.lock.get())) orphan.lock.reset();
    if (orphan.processes.empty() && !orphan.lock) {
      const port::LaneView lane = ports_.lanes.look_at(static_cast<unsigned>(orphan.task.lane));
      const Remains remains = remains_of(orphan.task, lane.record.get(), ports_.boot, store_);
      if (std::holds_alternative<Unknown>(remains) && !(orphan.processes = living(orphan.task)).empty()) continue;
      if (task && task->state == model::TaskState::running && task->runs == orphan.task.runs)
        record_end(orphan.task, remains, orphan.over_time);
      orphans_.erase(orphans_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (orphan.next_step) {
      if (now >= *orphan.next_step) next_step_against(orphan);
    } else if (task && task->cancel_asked) {
      next_step_against(orphan);
    } else if (orphan.limit && now >= *orphan.limit) {
      orphan.over_time = true;
      next_step_against(orphan);
    } else if (task && task->paused != orphan.paused) {
      pause(orphan, task->paused);
    }
  }
}

std::optional<SteadyTime> Orphans::next_look() const {
  std::optional<SteadyTime> next;
  for (const Orphan& orphan : orphans_)
    if (const auto& time = orphan.next_step ? orphan.next_step : orphan.limit) next = next ? std::min(*next, *time) : *time;
  return next;
}

std::vector<int> Orphans::ends() const {
  std::vector<int> all;
  for (const Orphan& orphan : orphans_) {
    for (const Fd& process : orphan.processes) all.push_back(process.get());
    if (orphan.lock) all.push_back(orphan.lock.get());
  }
  return all;
}

bool Orphans::contains(const model::Task& task) const {
  return std::ranges::any_of(orphans_,
                             [&](const Orphan& one) { return one.task.job == task.job && one.task.index == task.index; });
}

bool Orphans::have_lane(unsigned number) const {
  return std::ranges::any_of(orphans_, [&](const Orphan& orphan) { return orphan.task.lane == number; });
}

}  // namespace thole::app
