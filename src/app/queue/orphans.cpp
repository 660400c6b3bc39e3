#include "app/queue/orphans.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "app/queue/job_names.hpp"
#include "app/queue/notify.hpp"
#include "app/queue/untold_tasks.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "model/boot.hpp"
#include "plan/job/ending.hpp"

namespace thole::app {

using model::Signal;

namespace {

constexpr Millis first_told_again{100}, last_told_again{30'000};

std::string why_of(const port::Unseen& unseen) { return fmt::format("{} (try: {})", unseen.what(), unseen.hint()); }

bool any_ended(const std::vector<Fd>& processes) { return std::ranges::any_of(processes, is_readable, &Fd::get); }

}  // namespace

void Orphans::take_up(const model::Task& task, LeftRecord left) {
  orphans_.push_back(
      {.task = task, .record = std::move(left.record), .is_copy = left.is_copy, .of_another_moment = left.of_another_moment});
}

// How it is found: its mark, and what its lane has noted of its command. Of a dead lane nothing of that changes any more.
void Orphans::trace(Orphan& orphan) {
  const model::LaneRecord* record = lane_record(orphan);
  orphan.run = {.mark = task_mark(secret_, orphan.task)};
  port::put_lane(orphan.run, record, orphan.is_copy);
  if (!record) return;
  boots_.learn(*record, static_cast<bool>(orphan.lock));
  orphan.boot = boots_.of(model::boot_of(*record));
  if (orphan.boot == model::Boot::another) return;
  orphan.run.pid_namespace = model::pid_namespace_of(*record);
  const model::LaneBay* bay = bay_of(orphan.task, record);
  if (!bay) return;
  const auto command = model::noted_command(*record, static_cast<std::size_t>(bay - record->bays.data()), orphan.boot);
  orphan.run.command = command.pid;
  orphan.run.identity = command.identity;
}

// In a container what nobody knows to have been started there is not seen.
void Orphans::refuse_untold(const Orphan& orphan, const Remains& remains) const {
  const bool elsewhere = orphan.run.pid_namespace == 0 && !ports_.boot.kernels_own;
  if (!std::holds_alternative<Untold>(remains) && (orphan.boot != model::Boot::untold || !elsewhere)) return;
  port::Unseen unseen(Error(ErrorCode::unavailable, model::why_untold).hint(model::who_can_tell));
  const model::LaneRecord* record = lane_record(orphan);
  unseen.boot = model::to_text(record ? model::boot_of(*record) : model::boot_of_untold(orphan.task.reason));
  throw unseen;
}

// Its lock is looked at first: what nobody has locked changes no more, and what is recorded of it after that is all there is.
// A child on its way to execve outlives its lane, and has the lock, also of a task that has not begun by its record.
std::optional<Remains> Orphans::first_look_at(Orphan& orphan) {
  if (orphan.task.lane < model::lane_of_untold)
    orphan.lock = std::move(ports_.lanes.look_at(static_cast<unsigned>(orphan.task.lane)).end);
  trace(orphan);
  Remains left = remains(orphan);
  const auto* unknown = std::get_if<Unknown>(&left);
  if (std::holds_alternative<Ended>(left) || (unknown && unknown->boot == model::Boot::another)) return left;
  refuse_untold(orphan, left);
  if (unknown) find_living(orphan);
  progress_.take_up(orphan);
  if (!lives(orphan)) return with_status(orphan, std::move(left));
  orphan.looked_at = true;
  look_at_rest(orphan);
  return std::nullopt;
}

// What remains of it, when nothing of it lives any more.
std::optional<Remains> Orphans::look_at(Orphan& orphan) {
  if (!orphan.looked_at) return first_look_at(orphan);
  if (orphan.run.command <= 0) trace(orphan);    // on its way to execve it has noted its number since
  const bool has_neighbour = std::ranges::any_of(orphans_, [&](const Orphan& other) { return share_lane(orphan, other); });
  if (any_ended(orphan.processes) || (!orphan.of_itself && has_neighbour)) find_living(orphan);
  if (orphan.lock && is_readable(orphan.lock.get())) orphan.lock.reset();
  if (lives(orphan)) {
    look_at_rest(orphan);
    return std::nullopt;
  }
  Remains left = remains(orphan);
  if (std::holds_alternative<Unknown>(left)) find_living(orphan);
  return lives(orphan) ? std::nullopt : with_status(orphan, std::move(left));
}

// A lane of ours leaves its children to us, also those that have ended: the kernel tells us how. Nothing: not yet.
std::optional<Remains> Orphans::with_status(Orphan& orphan, Remains left) {
  auto* unknown = std::get_if<Unknown>(&left);
  if (!unknown || unknown->command) return left;
  const std::optional<model::HowEnded> how = look_at_command(orphan).ended;
  if (!how) return left;
  const SteadyTime now = ports_.clock.steady();
  if (!orphan.was_told_to_end && plan::may_be_taken_down(*how)) {
    if (!orphan.in_doubt_until) orphan.in_doubt_until = now + plan::signals_take;
    if (now < *orphan.in_doubt_until) return std::nullopt;
  }
  Ended& ended = unknown->command.emplace();
  ended.ending.exit_code = how->exit_code;
  ended.ending.signal = how->signal;
  const bool was_told = orphan.step > 0 && !orphan.ended_by_itself;    // whatever its command made of that
  ended.ending.time_limit = was_told && orphan.over_time && orphan.was_told_to_end;
  ended.ending.cancelled = was_told && !orphan.over_time && is_to_be_cancelled(orphan);
  ended.at = ports_.clock.wall();
  ended.peak_memory_kib = how->peak_memory_kib;
  return left;
}

bool Orphans::is_to_be_cancelled(const Orphan& orphan) const {
  const auto task = ports_.jobs.task(orphan.task.job, orphan.task.index);
  return task && task->cancel_asked;
}

port::Children::Child Orphans::look_at_command(const Orphan& orphan) const {
  return ports_.children.look_at_command(command_of(orphan), orphan.run.identity);
}

bool Orphans::command_has_ended(const Orphan& orphan) const {
  const Remains left = remains(orphan);
  const auto* unknown = std::get_if<Unknown>(&left);
  if (!unknown) return false;
  const port::Children::Child child = look_at_command(orphan);
  return unknown->command || child.ended || child.is_gone;   // the latter: its lane was told how, and has died with that
}

// What a command has left is ended, as its lane would: from TERM on, after a moment for what ends with it.
void Orphans::look_at_rest(Orphan& orphan) {
  if (orphan.lingers || orphan.rest_is_ended || orphan.next_step) return;
  if (!command_has_ended(orphan)) return;
  ports_.say(fmt::format("job {}.{}: its command has ended; what it has left running is ended", orphan.task.job,
                         orphan.task.index));
  orphan.rest_is_ended = true;
  orphan.ended_by_itself = true;
  orphan.step = 1;
  orphan.next_step = ports_.clock.steady() + plan::settling_moment;
}

std::vector<pid_t> Orphans::commands() const {
  std::vector<pid_t> all;
  for (const Orphan& orphan : orphans_) all.push_back(orphan.run.command);
  return all;
}

// The lock is the lane's: of several tasks it does not tell which of them has it, nor does a process that has it and shows no
// task. One that was seen to live, or whose command has ended, and of which nothing is seen, has ended where another one
// explains them. (What was never seen may be on its way to execve.)
bool Orphans::lives(const Orphan& orphan) const {
  return !orphan.processes.empty() || (orphan.lock && !another_explains(orphan));
}

bool Orphans::another_explains(const Orphan& orphan) const {
  return orphan.seen && std::ranges::any_of(orphans_, [&](const Orphan& other) {
    return share_lane(orphan, other) && other.of_itself;
  });
}

// What has its lane's lock and shows no task can only be of the last one that lives, or of one that has ended: it is ended with
// that, as by a lane that lives; and it stands still, and goes on, with the last of them that is told to. Of another queue's
// lane, or of one of another moment, nothing is told by its lock.
void Orphans::look_at_neighbours(Orphan& orphan, std::optional<Signal> signal) {
  const model::LaneRecord* record = lane_record(orphan);
  const bool is_its_lane =
      !orphan.is_copy && !orphan.of_another_moment && bay_of(orphan.task, record) && record->store == store_;
  orphan.run.lane = is_its_lane ? std::optional(static_cast<unsigned>(orphan.task.lane)) : std::nullopt;
  const auto has_told_the_same = [&](const Orphan& other) {
    return (signal == Signal::stop && other.paused == true) || (signal == Signal::go_on && other.paused == false);
  };
  orphan.run.is_alone = std::ranges::none_of(orphans_, [&](const Orphan& other) {
    const bool is_unknown = !other.looked_at || other.unseen || other.trouble.is_on();
    return share_lane(orphan, other) && (is_unknown || (other.of_itself && !has_told_the_same(other)));
  });
}

// What lives of a run: its processes, and of those that have the lane's lock whatever may be of it; a lane that has lost its
// files, too.
void Orphans::find_living(Orphan& orphan) {
  look_at_neighbours(orphan);
  std::vector<Fd> processes = ports_.lanes.bearers(orphan.run);
  orphan.of_itself = !processes.empty();
  // Of a command that has noted its number, and is not there, too.
  orphan.seen = orphan.seen || orphan.of_itself || orphan.run.command > 0 || command_has_ended(orphan);
  if (!another_explains(orphan))
    for (Fd& holder : ports_.lanes.holders(static_cast<unsigned>(orphan.task.lane), orphan.run))
      processes.push_back(std::move(holder));
  orphan.processes = std::move(processes);
}

// False: nothing was there to hear it, or nothing that is seen.
bool Orphans::signal(Orphan& orphan, Signal signal) {
  look_at_neighbours(orphan, signal);
  std::string hidden;
  bool heard = false;
  try {
    heard = ports_.lanes.signal_bearers(orphan.run, signal);
  } catch (const port::Unseen& unseen) {
    if (unseen.by != port::UnseenBy::hidden) throw;
    hidden = why_of(unseen);
  }
  if (!hidden.empty() && orphan.hidden.empty())
    ports_.say(fmt::format("job {}.{}: what is left of it gets no signal, and is waited for: {}", orphan.task.job,
                           orphan.task.index, hidden));
  orphan.hidden = std::move(hidden);
  return heard;
}

// What is taken up is told anew what the store says of it: while nobody looked after it a pause may have begun or ended, and
// what has a session of its own stands still where its lane has stopped it.
void Orphans::pause(Orphan& orphan, bool paused) {
  signal(orphan, paused ? Signal::stop : Signal::go_on);
  progress_.pause(orphan, paused);
  orphan.paused = paused;
  orphan.told_at = ports_.clock.steady();
  orphan.told_again_after = first_told_again;
}

// Others may let it go on: the kernel, which sends a CONT where the parent of what stands still ends, in a pid namespace of
// which we see nothing. To what stands already this is nothing.
void Orphans::tell_again(Orphan& orphan) {
  signal(orphan, Signal::stop);
  orphan.told_at = ports_.clock.steady();
  orphan.told_again_after = std::min(orphan.told_again_after * 2, last_told_again);
}

// A step that could not be made is to be made yet. Its record says so too, before: the next runner would begin with INT again,
// and the one after that.
void Orphans::next_step_against(Orphan& orphan) {
  const unsigned before = orphan.step;
  const SteadyTime now = ports_.clock.steady(), told_before = std::exchange(orphan.told_step_at, now);
  orphan.step = std::min(before, last_step) + 1;
  progress_.note(orphan);
  const Signal step = end_steps[std::min(before, last_step)];
  const bool had_heard = orphan.was_told_to_end;
  try {
    if (signal(orphan, step)) orphan.was_told_to_end = true;
    if (step != Signal::kill) signal(orphan, Signal::go_on);   // a stopped one must run to hear it
  } catch (...) {
    orphan.step = before;
    orphan.told_step_at = told_before;
    progress_.note(orphan);
    throw;
  }
  orphan.next_step = now + after_step(orphan.step, orphan.patience);
  if (orphan.was_told_to_end != had_heard) progress_.note(orphan);
}

// What people asked of it, and what its limit asks.
void Orphans::act_on(Orphan& orphan, const std::optional<model::Task>& task) {
  const SteadyTime now = ports_.clock.steady();
  if (orphan.next_step) {
    if (now >= *orphan.next_step) next_step_against(orphan);
  } else if (task && task->cancel_asked) {
    orphan.ended_by_itself = command_has_ended(orphan);
    next_step_against(orphan);
  } else if (orphan.limit && now >= *orphan.limit) {
    orphan.ended_by_itself = command_has_ended(orphan);
    orphan.over_time = true;
    next_step_against(orphan);
  } else if (task && task->paused != orphan.paused) {
    pause(orphan, task->paused);
  } else if (orphan.paused == true && now >= orphan.told_at + first_told_again) {
    tell_again(orphan);
  }
}

void Orphans::record_end(const Orphan& orphan, const Remains& remains) {
  const model::Task& task = orphan.task;
  const model::JobSpec spec = ports_.jobs.spec(task.job);
  const WallTime now = ports_.clock.wall();
  port::TaskEnd end = end_of(task, remains, spec.retry, now);
  const auto* unknown = std::get_if<Unknown>(&remains);
  if (orphan.over_time && orphan.was_told_to_end && unknown && !unknown->command)
    end.reason = "told to end at its time limit; " + end.reason;
  const port::Round round = ports_.jobs.round({&end, 1}, std::nullopt, now);
  const auto after = ports_.jobs.task(task.job, task.index);   // what was to be cancelled has become that
  ports_.say(fmt::format("job {}.{}: its lane cannot be reached; {}", task.job, task.index,
                         model::to_string(after ? after->state : end.state)));
  for (model::JobId job : round.ended) notify(ports_, job);
}

// Of many tasks of a job the same is said once.
void Orphans::say_untold(const Orphan& orphan, const std::string& text) const {
  const auto is_told = [&](const Orphan& other) {
    return &other != &orphan && other.unseen && other.trouble.is_on() && other.task.job == orphan.task.job &&
           other.task.lane == orphan.task.lane;
  };
  if (std::ranges::any_of(orphans_, is_told)) return;
  std::vector<model::TaskIndex> tasks;
  for (const Orphan& other : orphans_)
    if (other.task.job == orphan.task.job && other.task.lane == orphan.task.lane) tasks.push_back(other.task.index);
  ports_.say(fmt::format("job {}: {}, and count as running: {}; if none of them runs: thole cancel --force {}", orphan.task.job,
                         untold_text(tasks.size()), text, names_of(orphan.task.job, tasks)));
}

port::UnseenRun Orphans::unseen_run(const Orphan& orphan, port::UnseenBy by, const std::string& why) {
  return {.job = orphan.task.job, .task = orphan.task.index, .runs = orphan.task.runs,
          .pid_namespace = orphan.run.pid_namespace, .by = by, .locked = static_cast<bool>(orphan.lock), .why = why};
}

// Neither ended nor called lost: it would run twice. Who cancels it is obeyed by the first runner that sees it. That it is over
// a person may know (`cancel --force`), where nothing has its lane's lock any more; nothing begins again by that.
std::optional<Remains> Orphans::of_unseen(Orphan& orphan, const std::optional<model::Task>& task, const port::Unseen& unseen) {
  const auto say = [&](const std::string& text) {
    if (orphan.task.lane == model::lane_of_untold) return say_untold(orphan, text);
    ports_.say(fmt::format("job {0}.{1}: its lane cannot be reached, and what is left of it is not seen from here, so that it "
                           "counts as running: {2}; if it is over: thole cancel --force {0}.{1}", orphan.task.job,
                           orphan.task.index, text));
  };
  const bool is_open = task && task->state == model::TaskState::running && task->runs == orphan.task.runs;
  if (!is_open) return NeverBegan{};             // somebody else has told its end
  const std::string why = why_of(unseen);
  orphan.unseen = unseen_run(orphan, unseen.by, why);
  orphan.unseen->boot = unseen.boot;
  orphan.trouble.met(why, say);
  if (!task->given_up || orphan.lock) return std::nullopt;
  Ended cancelled;
  cancelled.ending.cancelled = true;
  cancelled.at = ports_.clock.wall();
  return cancelled;
}

// What is known of the neighbours in a lane tells what its lock means, so that a first look is followed by another.
void Orphans::look_after() {
  const bool any_is_new =
      std::ranges::any_of(orphans_, [](const Orphan& orphan) { return !orphan.looked_at && !orphan.trouble.is_on(); });
  look_at_all();
  if (any_is_new) look_at_all();
}

void Orphans::look_at_all() {
  std::exception_ptr unstored;
  for (std::size_t i = orphans_.size(); i-- > 0;) {
    Orphan& orphan = orphans_[i];
    const auto task = ports_.jobs.task(orphan.task.job, orphan.task.index);   // a lane without files may have told its end
    std::optional<Remains> remains;
    try {
      remains = look_at(orphan);
      if (!remains) act_on(orphan, task);
      orphan.trouble.over();
      orphan.unseen.reset();
    } catch (const port::NewerFile&) {
      throw;
    } catch (const port::Unseen& unseen) {
      remains = of_unseen(orphan, task, unseen);
    } catch (const Error& error) {
      const auto say = [&](const std::string& text) {
        ports_.say(fmt::format("job {}.{}: its lane cannot be reached, and what is left of it cannot be told yet: {}",
                               orphan.task.job, orphan.task.index, text));
      };
      orphan.trouble.met(error.full(), say);
    }
    if (!remains) continue;
    try {
      if (task && task->state == model::TaskState::running && task->runs == orphan.task.runs) record_end(orphan, *remains);
    } catch (const port::NewerFile&) {
      throw;
    } catch (const Error&) {
      unstored = std::current_exception();       // it is told later; the others are no worse for it
      continue;
    }
    if (look_at_command(orphan).ended) ports_.children.bury(orphan.run.command);
    orphans_.erase(orphans_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  progress_.note_again(orphans_);
  if (unstored) std::rethrow_exception(unstored);
}

port::RunnerSight Orphans::sight() const {
  port::RunnerSight sight;
  for (const Orphan& orphan : orphans_) {
    const bool has_boot = lane_record(orphan) && orphan.run.pid_namespace == 0;   // else the namespace tells
    if (!orphan.hidden.empty()) sight.unseen.push_back(unseen_run(orphan, port::UnseenBy::hidden, orphan.hidden));
    if (orphan.unseen) sight.unseen.push_back(*orphan.unseen);
    else if (orphan.looked_at)
      sight.seen.insert({orphan.run.pid_namespace, has_boot ? model::to_text(model::boot_of(*lane_record(orphan))) : ""});
  }
  return sight;
}

std::optional<SteadyTime> Orphans::next_look() const {
  std::optional<SteadyTime> next;
  const auto consider = [&next](SteadyTime time) { next = next ? std::min(*next, time) : time; };
  if (const auto again = progress_.next_try()) consider(*again);
  for (const Orphan& orphan : orphans_) {
    if (orphan.trouble.is_on()) consider(orphan.trouble.again());
    else if (orphan.in_doubt_until) consider(*orphan.in_doubt_until);
    else if (orphan.next_step) consider(*orphan.next_step);
    else if (orphan.limit) consider(*orphan.limit);
    else if (orphan.paused == true) consider(orphan.told_at + orphan.told_again_after);
  }
  return next;
}

// Not of one that cannot be looked at: its descriptors would call for that all the time.
std::vector<int> Orphans::ends() const {
  std::vector<int> all;
  for (const Orphan& orphan : orphans_) {
    if (orphan.trouble.is_on()) continue;
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
