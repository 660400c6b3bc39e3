#include "app/queue/why_job.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/job_parts.hpp"
#include "app/queue/notify.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/untold_tasks.hpp"
#include "app/show/why.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"

namespace thole::app {

using model::Job;
using model::Task;
using model::TaskState;

namespace {

constexpr std::uint64_t most_named = 5;          // tasks that are named one by one

std::string name_of(const Job& job, const std::string& number) {
  return job.name.empty() ? number : fmt::format("{} ({})", number, printable(job.name, 60));
}

std::string labels_of(const Task& task, const Overview& machine) {
  std::vector<std::string> labels;
  for (const std::string& key : task.gpus) labels.push_back(label_of(key, &machine));
  return labels.empty() ? "without a GPU" : "on GPU " + join(labels, ",");
}

std::string ending_of(const Task& task) {
  if (!task.reason.empty()) return printable(task.reason, 200);
  if (task.signal) return fmt::format("killed by signal {}", *task.signal);
  return task.exit_code ? fmt::format("exit status {}", *task.exit_code) : to_string(task.state);
}

// Says everything about one job, or about some of its tasks.
class Account {
 public:
  Account(Queue queue, const JobPart& part, const JobLine* line, const JobList& list, const Overview& machine)
      : queue_(queue), job_(part.job), part_(part), counts_(part.counts), line_(line), full_disk_(list.full_disk),
        machine_(machine), now_(queue.clock.wall()) {}

  std::vector<std::string> tell() {
    waiting();
    running();
    ended();
    return std::move(said_);
  }

 private:
  void say(std::string sentence) { said_.push_back(std::move(sentence)); }

  std::uint64_t all() const { return part_.size(); }

  std::string name(const Task& task) const { return all() == 1 ? "it" : fmt::format("{}.{}", job_.id, task.index); }

  // The first few of those.
  std::vector<Task> in(TaskState state) const {
    const auto [first, last] = part_.range();
    std::vector<Task> some = queue_.store.tasks(job_.id, first, most_named, {state});
    std::erase_if(some, [last = last](const Task& task) { return task.index > last; });
    return some;
  }

  void waiting() {
    const std::uint64_t open = counts_[TaskState::queued] + counts_[TaskState::held];
    if (open == 0) return;
    if (!line_ || !line_->wait) return;
    const JobWait& wait = *line_->wait;
    say(all() == 1 ? "it waits: " + wait.text : fmt::format("{} of {} tasks wait: {}", open, all(), wait.text));
    if (const auto runner = queue_.door.stopped_runner())
      say(fmt::format("nothing of the queue starts: its runner is stopped; kill -CONT {} lets it go on", *runner));
    if (wait.kind == "dependency") dependencies();
    if (wait.kind == "jobs")
      say(fmt::format("{} before it; thole edit {} --priority N changes the order",
                      wait.jobs_before == 1 ? "one job of yours goes" : fmt::format("{} jobs of yours go", wait.jobs_before),
                      job_.id));
    if (wait.kind == "line" || wait.kind == "start" || wait.kind == "again" || wait.kind == "jobs") gpus();
  }

  // The ends that others wait for in vain.
  std::string unwritten_of(const Job& other) const {
    if (other.counts[TaskState::running] == 0) return "";
    const std::vector<Task> running = queue_.store.tasks(other.id, 0, most_named, {TaskState::running});
    const auto ends = std::ranges::count_if(
        running, [&](const Task& task) { return unwritten_end(queue_.door, task, now_).has_value(); });
    if (ends == 0) return "";
    return fmt::format(", and {} that cannot be written: {}", plural(static_cast<std::uint64_t>(ends), "more end"),
                       why_unwritten(full_disk_));
  }

  void dependencies() {
    for (const model::Dependency& one : job_.terms.after) {
      const auto others = jobs_of(queue_.store, {{one.job, one.job, std::nullopt}});
      if (others.empty()) continue;
      const Job& other = others.front();
      const std::string its_name = name_of(other, std::to_string(other.id));
      say(fmt::format("it waits for job {} to {}; that one is {}, {} of {} tasks ended{}", its_name,
                      one.when == model::After::ok     ? "succeed"
                      : one.when == model::After::fail ? "fail"
                                                       : "end",
                      state_of(other), other.counts.ended(), other.tasks, unwritten_of(other)));
    }
  }

  // What it asks for, and what is in the way.
  void gpus() {
    const model::JobSpec spec = queue_.store.spec(job_.id);
    if (spec.request.gpus == 0) return;
    say("it asks for " + printable(spec.request.describe(), 200));
    if (!spec.request.on.empty()) say("only on " + printable(join(spec.request.on, ", "), 200));
    if (spec.leave > 0) say(fmt::format("it starts only while {} GPUs stay free for others (--leave)", spec.leave));
    std::vector<std::pair<std::string, std::vector<std::string>>> kept;   // units of which the same is said are named together
    for (std::size_t unit = 0; unit < machine_.units.size(); ++unit) {
      if (machine_.units[unit].state == State::idle) continue;
      const UnitWhy why = why_unit(machine_, unit);
      const std::string sentence = why.sentences.empty() ? to_string(why.state) : why.sentences.front();
      auto same = std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == sentence; });
      if (same == kept.end()) same = kept.insert(kept.end(), {sentence, {}});
      same->second.push_back(why.unit);
    }
    for (const auto& [sentence, labels] : kept) say(fmt::format("GPU {}: {}", join(labels, ","), sentence));
  }

  std::set<pid_t> stopped_lanes() {
    std::set<pid_t> stopped;
    for (const Task& task : in(TaskState::running))
      if (const auto lane = queue_.door.stopped_lane(task.lane)) stopped.insert(*lane);
    return stopped;
  }

  std::string unwritten(Task task, const port::NotedEnd& end) const {
    task.exit_code = end.exit_code;
    task.signal = end.signal;
    return fmt::format("{} ended {} ({}), and counts as running until that can be written: {}", name(task),
                       format_local(end.at, now_), ending_of(task), why_unwritten(full_disk_));
  }

  void running() {
    const std::uint64_t count = counts_[TaskState::running];
    if (count == 0) return;
    for (const Task& task : in(TaskState::running))
      if (const auto end = unwritten_end(queue_.door, task, now_)) say(unwritten(task, *end));
      else
        say(fmt::format("{} {}{}, {}", name(task), task.paused ? "is paused; it runs" : "runs",
                        task.started ? " since " + format_local(*task.started, now_) : "", labels_of(task, machine_)));
    for (const pid_t lane : stopped_lanes())
      say(fmt::format("its supervisor is stopped, and neither sees its end nor hears thole cancel: kill -CONT {}", lane));
    const std::vector<model::TaskIndex> untold = untold_tasks(queue_.store, job_, part_.range());
    if (untold.size() > 1)
      say(fmt::format("{}, and count as running: {} (try: {}); if none of them runs: thole cancel --force {}",
                      untold_text(untold.size()), model::why_untold, model::who_can_tell, names_of(job_.id, untold)));
    const HashKey secret = queue_.store.secret();
    for (const Task& task : in(TaskState::running)) {
      const std::string name = fmt::format("{}.{}", job_.id, task.index);
      if (untold.size() > 1 && task.lane == model::lane_of_untold) continue;
      const std::string mark = task_mark(secret, task);
      if (const auto unseen = queue_.door.unseen(task, mark)) {
        const bool hidden = unseen->by == port::UnseenBy::hidden;
        say(fmt::format("the supervisor of {} cannot be reached, and the queue's runner does not see what is left: {}; {}",
                        name, printable(unseen->why, 600),
                        hidden ? "it is over when nothing has that lock" : "if it is over: thole cancel --force " + name));
      } else if (const std::vector<std::string> left = queue_.door.left_of(task, mark); !left.empty()) {
        std::vector<std::string> words;
        for (const std::string& process : left) words.push_back(printable(process, 120));
        say(fmt::format("the supervisor of {} cannot be reached: its status will not be known; it is over when this has "
                        "ended: {}", name, join(some_of(std::move(words)), "; ")));
      }
    }
    if (count > most_named) say(fmt::format("{} more run", count - most_named));
    if (const auto end = line_ && all() == job_.tasks ? line_->expected_end : std::nullopt)
      say("if it goes on so, the last task ends about " + format_local(*end, now_));
  }

  void ended() {
    for (const TaskState state : {TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::skipped}) {
      const std::uint64_t count = counts_[state];
      if (count == 0) continue;
      if (state == TaskState::skipped) {
        say(fmt::format("{} skipped: a job it was to wait for did not end as asked",
                        all() == 1 ? "it was" : fmt::format("{} tasks were", count)));
        continue;
      }
      const std::vector<Task> some = in(state);
      for (const Task& task : some)
        say(fmt::format("{} {}{}: {}{}", name(task),
                        state == TaskState::failed ? "failed"
                        : state == TaskState::lost ? "was lost"
                                                   : "was cancelled",
                        task.ended ? " " + format_local(*task.ended, now_) : "", ending_of(task),
                        task.runs > 1 ? fmt::format(", run {} times", task.runs) : ""));
      if (some.empty())                          // many at once, which had not begun
        say(fmt::format("{} {} before {} began", all() == 1 ? "it was" : fmt::format("{} tasks were", count),
                        to_string(state), count == 1 ? "it" : "they"));
      else if (count > some.size())
        say(fmt::format("{} more {}: thole jobs {} --tasks", count - some.size(), to_string(state), job_.id));
    }
    if (job_.ended)
      if (const std::string status = notify_failure_in(queue_.door.last_said(), job_.id); !status.empty())
        say(fmt::format("its --notify command failed: exit status {}", printable(status, 20)));
    if (counts_.ended() == all() && counts_[TaskState::done] == all())
      say(fmt::format("{}{}", all() == 1 ? "it succeeded" : fmt::format("all {} tasks succeeded", all()),
                      job_.ended ? ", " + format_local(*job_.ended, now_) : ""));
  }

  Queue queue_;
  const Job& job_;
  const JobPart& part_;
  const model::TaskCounts& counts_;
  const JobLine* line_;                          // as the list has it
  const std::string& full_disk_;
  const Overview& machine_;
  WallTime now_;
  std::vector<std::string> said_;
};

}  // namespace

std::vector<JobWhy> why_jobs(Queue queue, const std::vector<port::Selection>& which, const Overview& machine) {
  JobListWish wish;
  wish.which = which;
  // Once: each job looks at all others.
  const JobList list = list_jobs(queue.store, &machine, wish, queue.clock.wall(), &queue.door);
  std::map<model::JobId, const JobLine*> lines;
  for (const JobLine& line : list.lines) lines[line.job.id] = &line;
  std::vector<JobWhy> all;
  for (const JobPart& part : parts_of(queue.store, which)) {
    const auto line = lines.find(part.job.id);
    all.push_back({part.job.id, name_of(part.job, part.name()), state_of(part.counts),
                   Account(queue, part, line == lines.end() ? nullptr : line->second, list, machine)
                       .tell()});
  }
  return all;
}

}  // namespace thole::app
