#include "app/queue/lane_tasks.hpp"

#include <algorithm>
#include <utility>

#include "app/queue/task_end.hpp"
#include "app/queue/task_text.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "plan/job/fate.hpp"
#include "plan/job/sweep.hpp"

namespace thole::app {

namespace {

constexpr std::size_t tail_for_signs = 64 * 1024;
constexpr std::uint64_t default_log_limit_mib = 1024;
constexpr Millis accounts_patience{2'000};       // a driver that hangs must not keep a lane

HowItEnded how_of(const port::TaskOver& over) {
  const unsigned flags = (over.ended.core ? model::how_core : 0) | (over.ended.time_limit ? model::how_time_limit : 0) |
                         (over.cancelled ? model::how_cancelled : 0) | (over.taken_down ? model::how_taken_down : 0);
  return {over.ended.exit_code.value_or(-1), over.ended.signal.value_or(-1), flags, over.peak_memory_kib.value_or(0)};
}

}  // namespace

void LaneTasks::prepare(const model::Job& job, model::JobSpec spec) {
  job_ = job.id;
  spec_ = std::move(spec);
  secret_ = ports_.jobs.secret();
  notes_.job(job.id);
  alone_ = job.tasks == 1;
  const Acquired& acquired = claim_.acquired();
  variables_ = ClaimVariables(site_, acquired, spec_.request, plan::parse_ids(spec_.ids).value_or(plan::Ids::automatic));
  try {
    binding_ = binding_for(site_, ports_.bind, spec_.bind, acquired, 1);
  } catch (const Error& error) {
    cannot_bind_ = error;                        // then no task of it can begin
  }
  for (std::size_t index : acquired.chosen) {
    const model::Unit& unit = acquired.units[index];
    gpu_names_.push_back(fmt::format("{} ({})", unit.label, unit.model_of(site_.observer.snapshot().machine)));
    gpu_keys_.push_back(unit.key);
  }
  const bool whole =
      std::ranges::none_of(acquired.chosen, [&](std::size_t i) { return acquired.units[i].instance.has_value(); });
  const bool is_whole_machines = !acquired.claim.is_all_of_another() && !acquired.inner_store;
  one_task_at_a_time_ = whole && spec_.per_gpu <= 1 && !spec_.request.share && is_whole_machines;
  site_.observer.rest();
  keeper_ = ports_.keeper();
}

std::optional<port::TakeWish> LaneTasks::wish() {
  port::TakeWish wish;
  wish.job = job_;
  wish.lane = seat_.number;
  wish.gpus = gpu_keys_;
  wish.bays.clear();
  const unsigned bays = std::clamp(spec_.per_gpu, 1u, model::lane_bays);
  for (unsigned number = 0; number < bays; ++number) {
    if (running_.contains(number)) continue;
    port::LogUse use{job_, alone_, seat_.number, number, spec_.log_limit_mib.value_or(default_log_limit_mib)};
    port::TaskLogs::Spot spot = ports_.logs.next(use);
    if (!spot.problem.empty()) ports_.say(fmt::format("job {}: no log: {}", job_, spot.problem));
    wish.bays.push_back({number, std::move(spot.name), spot.offset});
  }
  if (wish.bays.empty()) return std::nullopt;
  return wish;
}

void LaneTasks::begin(const port::TakenTask& taken) {
  Running running;
  running.task = taken;
  running.log = {job_, alone_, seat_.number, taken.bay, spec_.log_limit_mib.value_or(default_log_limit_mib)};
  running.started = site_.clock.wall();
  running.time = taken.time;
  running.clock = TaskClock(site_.clock.steady());
  const bool noted = notes_.taken(taken, running.started);
  try {
    if (cannot_bind_) throw Error(*cannot_bind_);
    std::vector<std::string> argv = plan::task_command(spec_, taken.job, taken.index, taken.cells);
    port::ProcessSpec spec = spec_for(running, std::move(argv));
    spec.output = ports_.logs.begin(running.log, header_for(running, spec.argv));
    if (!noted) throw port::NotNoted(notes_.refusal());
    model::ProcessIdentity command;
    spec.identity = &command;
    port::TaskRun run{taken.bay, taken.time, spec_.patience, spec_.linger,
                      [this](const auto& which) { ports_.say(fmt::format("job {}: {}", job_, out_of_reach_text(which))); },
                      [this, bay = taken.bay](unsigned rungs, bool limit) { say_rung(bay, rungs, limit); },
                      [this](const port::TaskOver& end) { say_command_end(end); }};
    const pid_t pid = keeper_->start(spec, run);
    notes_.began(taken.bay, pid, command);
    running_.emplace(taken.bay, std::move(running));
    declare_end();
  } catch (const Error& error) {
    if (!is_want(error.sys_errno()) && !dynamic_cast<const port::NotNoted*>(&error)) return could_not_begin(running, error);
    notes_.not_begun(taken.bay);                 // whatever was forked for it has ended without an execve
    wants_ = true;
    leave_("nothing can be started now: " + error.full());
    ports_.logs.end(running.log, fmt::format("# not started, queued again: {}\n", in_one_line(error.full())));
    give_back(taken);
  }
}

bool LaneTasks::sees_its_gpus() {
  try {
    variables_.renew(list_, claim_.acquired());
    return true;
  } catch (const DriverTrouble& error) {
    leave_(in_one_line(error.without_hint()) + ": the rest of the job waits in line again");
    return false;
  }
}

void LaneTasks::give_back(const port::TakenTask& taken) { ends_.push_back(unstarted(taken, site_.clock.wall())); }

// Of all that runs: as long as some of it is paused, or has no limit, nobody knows it.
std::optional<WallTime> LaneTasks::known_end() const {
  std::optional<WallTime> last;
  for (const auto& [number, running] : running_) {
    if (!running.time || running.clock.paused()) return std::nullopt;
    const WallTime end = running.started + *running.time + running.clock.stood() + spec_.beyond_limit();
    last = last ? std::max(*last, end) : end;
  }
  return last;
}

void LaneTasks::declare_end() {
  carefully(ports_, job_, [&] { claim_.ends_at(known_end()); });
}

bool LaneTasks::are_ending() const {
  const auto ends = [&](const auto& one) { return keeper_->stands(one.first) == port::TaskStands::ending; };
  return !running_.empty() && std::ranges::all_of(running_, ends);
}

EndAsTold LaneTasks::as_told(WallTime until) const {
  const SteadyTime now = site_.clock.steady();
  const auto later = [](std::optional<WallTime>& one, std::optional<WallTime> other) {   // absent: never
    one = one && other ? std::optional(std::max(*one, *other)) : std::nullopt;
  };
  if (running_.empty()) return {.until = until};
  EndAsTold end{.until = WallTime::min(), .earlier = WallTime::min()};
  for (const auto& [number, running] : running_) {
    std::optional<WallTime> its;
    if (running.time) its = site_.clock.wall() + (*running.time - running.clock.ran(now)) + spec_.beyond_limit();
    const bool is_ending = keeper_->stands(number) == port::TaskStands::ending;
    end.is_hidden = end.is_hidden || running.clock.paused();
    later(end.earlier, its);
    later(end.until, is_ending ? its : until + spec_.beyond_limit());
  }
  return end;
}

void LaneTasks::extend(WallTime until) {
  const SteadyTime now = site_.clock.steady();
  const Millis left = until - site_.clock.wall();
  for (auto& [number, running] : running_) {
    if (keeper_->stands(number) == port::TaskStands::ending) continue;
    keeper_->tell(number, port::ExtendTask{now + left});
    const Millis whole = running.clock.ran(now) + left;
    if (running.time) running.clock.extend(whole - *running.time);
    else running.time = whole;
    notes_.limit_clock(number, running.clock.for_record(now));
  }
  declare_end();
}

// What is being ended is not paused, nor is what a paused command has left any more: then the store is told so.
void LaneTasks::pause(unsigned number, Running& running, bool paused) {
  keeper_->tell(number, port::PauseTask{paused});
  if ((keeper_->stands(number) == port::TaskStands::paused) != paused) return cannot_pause(running);
  if (running.clock.paused() == paused) return;
  const SteadyTime now = site_.clock.steady();
  running.clock.pause(paused, now);
  notes_.limit_clock(number, running.clock.for_record(now));
  declare_end();
}

void LaneTasks::say_rung(unsigned bay, unsigned rungs, bool time_limit) {
  const auto found = running_.find(bay);
  if (found == running_.end()) return;
  const port::TakenTask& task = found->second.task;
  notes_.told_to_end(bay, task_mark(secret_, task.job, task.index, task.runs), rungs, time_limit, site_.clock.steady());
}

void LaneTasks::say_command_end(const port::TaskOver& end) { notes_.command_ended(end.bay, how_of(end), site_.clock.wall()); }

void LaneTasks::cannot_pause(const Running& running) {
  const port::Selection it = selected(running);
  carefully(ports_, job_, [&] { (void)ports_.jobs.alter({&it, 1}, port::Verb::proceed, site_.clock.wall()); });
}

void LaneTasks::look_at_pauses() {
  for (auto& [number, running] : running_) {
    if (!running.clock.paused() || keeper_->stands(number) == port::TaskStands::paused) continue;
    cannot_pause(running);
    pause(number, running, false);
  }
}

// No such command, no such directory …: an end like any other, with the statuses that env(1) would give.
void LaneTasks::could_not_begin(Running& running, const Error& error) {
  const int exit_code = exit_status(error.code());
  const WallTime now = site_.clock.wall();
  notes_.ended(running.task.bay, {.exit_code = exit_code, .flags = model::how_no_start}, now);
  const plan::TaskEnding ending{.exit_code = exit_code};
  port::TaskEnd end = judged(running.task, ending, spec_.retry, now);
  end.reason = in_one_line(error.full());
  end.log_length = ports_.logs.end(running.log, fmt::format("# not started: {}\n", end.reason));
  ends_.push_back(std::move(end));
}

port::ProcessSpec LaneTasks::spec_for(const Running& running, std::vector<std::string> argv) {
  port::ProcessSpec spec = spec_with(claim_.acquired(), variables_.now(), ports_.carry);
  spec.argv = std::move(argv);
  spec.base = &spec_.environment;
  spec.set["THOLE_TASK"] = task_mark(secret_, running.task.job, running.task.index, running.task.runs) +
                           port::word_of_lane(seat_.record->number) + ports_.queue;
  spec.set["THOLE_JOB"] = std::to_string(running.task.job);
  spec.set["THOLE_TASK_INDEX"] = std::to_string(running.task.index);
  spec.set["THOLE_RUN"] = std::to_string(running.task.tries);
  spec.cwd = spec_.directory;
  spec.own_group = true;
  spec.mask = spec_.umask;
  spec.limits = limits_of(spec_.limits);
  spec.reached = notes_.reached(running.task.bay);
  spec.keep.push_back(seat_.life.get());
  if (binding_) put_into(spec, *binding_, 0, nullptr);
  return spec;
}

std::string LaneTasks::header_for(const Running& running, const std::vector<std::string>& argv) const {
  TaskHeader header;
  header.name = alone_ ? std::to_string(job_) : fmt::format("{}.{}", job_, running.task.index);
  header.runs = running.task.runs;
  header.argv = argv;
  header.directory = spec_.directory;
  header.host = ports_.host;
  header.gpus = gpu_names_;
  // What was asked of this host: a simulated machine's plan has others, too.
  if (binding_ && !binding_->effects.empty() && binding_->effects.front().binding.cpus)
    header.cpus = binding_->effects.front().binding.cpus->to_string();
  header.started = running.started;
  return header_text(header);
}

void LaneTasks::over(const port::TaskOver& over) {
  auto found = running_.find(over.bay);
  if (found == running_.end()) return;
  const Running& running = found->second;
  const WallTime now = site_.clock.wall();
  notes_.ended(over.bay, how_of(over), now);
  const std::optional<std::uint64_t> peak_gpu = peak_gpu_mib(running, now);
  if (peak_gpu) notes_.peak_gpu(over.bay, *peak_gpu);

  plan::TaskEnding ending{.exit_code = over.ended.exit_code,
                          .signal = over.ended.signal,
                          .time_limit = over.ended.time_limit,
                          .cancelled = over.cancelled,
                          .taken_down = over.taken_down};
  if (over.ended.exit_code != 0)
    ending.gpu_out_of_memory = plan::says_gpu_out_of_memory(ports_.logs.tail(running.log, tail_for_signs));
  port::TaskEnd end = judged(running.task, ending, spec_.retry, now);
  if (over.peak_memory_kib) end.peak_memory_mib = mib_of_kib(*over.peak_memory_kib);
  end.peak_gpu_memory_mib = peak_gpu;
  const Millis ran = std::max(Millis{0}, now - running.started);
  const std::string next = end.state != model::TaskState::queued ? ""
                           : end.ready ? "runs again at " + format_iso(*end.ready) : "runs again";
  const std::string own_line = ports_.logs.tail(running.log, 1).ends_with('\n') ? "" : "\n";
  end.log_length = ports_.logs.end(running.log, own_line + footer_text({over, ran, now, peak_gpu, end.reason, next}));
  ends_.push_back(std::move(end));
  running_.erase(found);
  if (over.survived) leave_("what a task has left behind cannot be ended: nothing more is started on its GPUs");
}

// What its largest process had on one GPU. With our GPUs to itself, all that has started on them since it began is its own,
// also what its children have started, whatever their pids look like from here.
std::optional<std::uint64_t> LaneTasks::peak_gpu_mib(const Running& running, WallTime ended) {
  if (!one_task_at_a_time_ || gpu_keys_.empty()) return std::nullopt;
  return site_.observer.peak_memory_mib(gpu_keys_, running.started, ended, accounts_patience);
}

void LaneTasks::read_orders() {
  for (auto& [number, running] : running_) {
    const std::optional<model::Task> task = ports_.jobs.task(running.task.job, running.task.index);
    if (!task || task->runs != running.task.runs) continue;
    if (task->cancel_asked) keeper_->tell(number, port::StopTask{});
    if (task->paused != running.clock.paused()) pause(number, running, task->paused);
  }
}

void LaneTasks::let_go_logs() {
  for (unsigned bay = 0; bay < model::lane_bays; ++bay)
    if (!running_.contains(bay)) ports_.logs.let_go(bay);
}

void LaneTasks::wait(std::span<const int> also, std::optional<SteadyTime> deadline) {
  for (const port::TaskOver& ended : keeper_->wait(also, deadline)) over(ended);
}

void LaneTasks::cancel_all() {
  std::vector<port::Selection> all;
  for (const auto& [number, running] : running_) all.push_back(selected(running));
  carefully(ports_, job_, [&] { (void)ports_.jobs.alter(all, port::Verb::cancel, site_.clock.wall()); });
  for (const auto& [number, running] : running_) keeper_->tell(number, port::StopTask{});
}

port::Selection LaneTasks::selected(const Running& running) {
  return {running.task.job, running.task.job, std::pair(running.task.index, running.task.index)};
}

bool LaneTasks::has_free_bay() const { return running_.size() < std::clamp(spec_.per_gpu, 1u, model::lane_bays); }

}  // namespace thole::app
