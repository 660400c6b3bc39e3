#include "app/queue/task_lives.hpp"

#include <algorithm>
#include <utility>

#include "plan/job/fate.hpp"

namespace thole::app {
namespace {

// Where it had succeeded before, what it has left alone was cancelled.
bool is_cancelled(const port::Ended& ended, plan::Why why, plan::Why why_it_ended) {
  const bool succeeded = why_it_ended == plan::Why::none && ended.exit_code == 0;
  return why == plan::Why::cancelled && !succeeded;
}

}  // namespace

pid_t TaskLives::start(const port::ProcessSpec& spec, const port::TaskRun& run) {
  const plan::Manner manner{.limit = run.time_limit,
                            .patience = run.patience,
                            .leaves = run.linger ? plan::Leaves::linger : plan::Leaves::end};
  LifeEvents events;
  events.out_of_reach = run.on_out_of_reach;
  if (run.on_rung)
    events.rung = [tell = run.on_rung](plan::Rung rung, plan::Why why) {
      tell(static_cast<unsigned>(rung), why == plan::Why::time_limit);
    };
  CommandLife life(*commands_, clock_, run.bay, manner, std::move(events));
  const pid_t pid = life.begin(spec);
  tasks_.erase(run.bay);
  tasks_.emplace(run.bay, Task{.life = std::move(life), .on_command_end = run.on_command_end});
  return pid;
}

void TaskLives::tell(unsigned bay, const port::TaskOrder& order) {
  const auto found = tasks_.find(bay);
  if (found == tasks_.end()) return;
  CommandLife& life = found->second.life;
  if (const auto* pause = std::get_if<port::PauseTask>(&order)) life.tell(plan::Paused{pause->on});
  else if (const auto* extend = std::get_if<port::ExtendTask>(&order)) life.tell(plan::Extended{extend->limit});
  else life.tell(plan::Asked{plan::Why::cancelled});
}

port::TaskStands TaskLives::stands(unsigned bay) const {
  const auto found = tasks_.find(bay);
  if (found == tasks_.end() || !found->second.life.may_be_extended()) return port::TaskStands::ending;
  return found->second.life.is_paused() ? port::TaskStands::paused : port::TaskStands::running;
}

bool TaskLives::told_to_end() {
  hear(SteadyTime{});
  return told_to_end_;
}

std::vector<port::TaskOver> TaskLives::wait(std::span<const int> also, std::optional<SteadyTime> deadline) {
  watch(also);
  const auto consider = [&deadline](std::optional<SteadyTime> time) {
    if (time && (!deadline || *time < *deadline)) deadline = time;
  };
  for (const auto& [bay, task] : tasks_) {
    consider(task.life.deadline());
    consider(task.in_doubt_until);
    if (task.life.is_over() && !task.in_doubt_until) deadline = SteadyTime{};
  }
  hear(deadline);
  const SteadyTime now = clock_.steady();
  std::vector<port::TaskOver> over;
  for (auto& [bay, task] : tasks_) {
    task.life.passed();
    if (task.in_doubt_until && (told_to_end_ || now >= *task.in_doubt_until)) {
      task.taken_down = told_to_end_;
      task.in_doubt_until.reset();
    }
    if (!task.life.is_over() || task.in_doubt_until) continue;
    port::TaskOver& one = over.emplace_back();
    one.bay = bay;
    one.ended = task.life.ended();
    one.cancelled = is_cancelled(one.ended, task.life.why(), task.life.why_it_ended());
    one.taken_down = task.taken_down;
    one.survived = task.life.survived();
    one.peak_memory_kib = task.life.peak_memory_kib();
  }
  for (const port::TaskOver& one : over) tasks_.erase(one.bay);
  return over;
}

void TaskLives::hear(std::optional<SteadyTime> deadline) {
  for (const port::CommandEvent& event : commands_->wait(deadline)) {
    if (std::holds_alternative<port::Signalled>(event)) {
      told_to_end_ = true;
      continue;
    }
    for (auto& [bay, task] : tasks_) task.life.heard(event);
    if (const auto* end = std::get_if<port::CommandEnded>(&event)) heard(*end);
  }
}

void TaskLives::heard(const port::CommandEnded& end) {
  const auto found = tasks_.find(end.bay);
  if (found != tasks_.end() && plan::may_be_taken_down(end.how) && found->second.life.why_it_ended() == plan::Why::none)
    found->second.in_doubt_until = clock_.steady() + plan::signals_take;
}

void TaskLives::before_burial(const port::CommandEnded& end) {
  const auto found = tasks_.find(end.bay);
  if (found == tasks_.end() || !found->second.on_command_end) return;
  const plan::Why why = found->second.life.why();
  if (why == plan::Why::none && plan::may_be_taken_down(end.how)) return;
  port::TaskOver over;
  over.bay = end.bay;
  put_how(over.ended, end.how);
  put_why(over.ended, why);
  over.cancelled = is_cancelled(over.ended, why, why);
  over.peak_memory_kib = end.how.peak_memory_kib;
  found->second.on_command_end(over);
}

void TaskLives::watch(std::span<const int> also) {
  if (std::ranges::equal(also, watched_)) return;
  for (const int fd : watched_) commands_->watch(fd, false);
  watched_.assign(also.begin(), also.end());
  for (const int fd : watched_) commands_->watch(fd, true);
}

}  // namespace thole::app
