#include "app/queue/job_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "app/queue/job_names.hpp"
#include "app/queue/put_off.hpp"
#include "app/queue/untold_tasks.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "model/lane_record.hpp"
#include "plan/job/lanes.hpp"
#include "plan/place/why.hpp"

namespace thole::app {

using model::KeptBack;
using model::Job;
using model::TaskState;

namespace {

constexpr Millis written_by{1'000};              // an end, where nothing is wrong
constexpr std::uint64_t most_asked = 128;        // running tasks of a job that are asked for their GPUs

std::uint64_t open_tasks(const Job& job) { return job.counts[TaskState::queued] + job.counts[TaskState::held]; }

// Says of one job after the other what it waits for.
class Reasons {
 public:
  Reasons(port::JobReader& jobs, const Overview* machine, const std::vector<Job>& unended, bool draining, WallTime now,
          const std::string& full_disk, const port::QueueDoor* door)
      : jobs_(jobs), machine_(machine), draining_(draining), now_(now), full_disk_(full_disk) {
    for (const Job& job : unended)
      if (!model::kept_back(job, now)) line_.push_back(&job);
    plan::put_in_order(line_);
    if (!door || line_.empty()) return;
    const std::string log = door->last_said();
    runner_kept_ = runner_kept_in(log);
    for (PutOff& one : put_off_in(log, now))
      for (const Job& job : jobs_of(jobs_, {{one.job, one.job, std::nullopt}})) put_off_.emplace(job.request_class, one);
  }

  std::optional<JobWait> of(const Job& job) const {
    if (open_tasks(job) == 0) return std::nullopt;
    if (const auto reason = model::kept_back(job, now_)) return because(job, *reason);
    if (draining_) return JobWait{"drain", "the queue is drained; thole drain --off"};
    if (!full_disk_.empty()) return JobWait{"disk", why_unwritten(full_disk_)};
    if (!runner_kept_.empty())
      return JobWait{"again", "its runner can begin nothing yet: " + printable(runner_kept_, 300)};
    if (job.gpus > 0)
      if (auto behind = behind_others(job)) return behind;
    if (const auto put_off = put_off_.find(job.request_class); put_off != put_off_.end() && job.counts[TaskState::running] == 0)
      return again(put_off->second);
    if (job.gpus > 0 && machine_)
      if (auto line = in_line(job)) return line;
    if (job.gpus > 0 && machine_)
      if (auto line = too_few_free(job)) return line;
    return JobWait{"start", job.counts[TaskState::running] > 0 ? "one after the other on its GPUs" : "starts next"};
  }

 private:
  std::optional<JobWait> because(const Job& job, KeptBack reason) const {
    switch (reason) {
      case KeptBack::nothing_queued:
        return job.counts[TaskState::held] > 0 ? std::optional(JobWait{"held", held(job)}) : std::nullopt;
      case KeptBack::held: return JobWait{"held", held(job)};
      case KeptBack::dependency: return JobWait{"dependency", after(job)};
      case KeptBack::begin: return JobWait{"begin", "not before " + format_local(*job.terms.begin, now_)};
      case KeptBack::at_most: return JobWait{"at-most", at_most(job)};
      case KeptBack::pause:
        return JobWait{"retry",
                       job.ready ? "tries again at " + format_local(*job.ready, now_) : std::string("tries again soon")};
    }
    return std::nullopt;
  }

  JobWait again(const PutOff& put_off) const {
    const std::string why = printable(put_off.why, 300);
    const Seconds in = std::chrono::ceil<Seconds>(put_off.until - now_);
    return {"again", fmt::format("asked for again in {}{}", format_duration(in), why.empty() ? "" : ": " + why)};
  }

  static std::string held(const Job& job) { return fmt::format("held; thole resume {}", job.id); }

  std::string at_most(const Job& job) const {
    const std::size_t untold = untold_tasks(jobs_, job, {0, job.tasks - 1}).size();
    const std::string standing = untold > 0 ? fmt::format("; {} may have begun", untold) : "";   // short: for a table
    return fmt::format("{} at once{}", *job.terms.at_most, standing);
  }

  std::string after(const Job& job) const {
    std::vector<std::string> words;
    for (const model::Dependency& one : job.terms.after) {
      const auto others = jobs_of(jobs_, {{one.job, one.job, std::nullopt}});
      if (!others.empty() && others.front().counts.ended() == others.front().tasks) continue;   // met already
      words.push_back(one.when == model::After::ok ? std::to_string(one.job)
                                                   : fmt::format("{}:{}", one.job, to_string(one.when)));
    }
    return words.empty() ? "after others" : "after " + join(words, ",");
  }

  // Jobs that go before it, of those that ask for the same GPUs; for the first of its kind, those of other kinds as long as the
  // machine's line does not know it.
  std::optional<JobWait> behind_others(const Job& job) const {
    std::vector<std::string> before;
    std::uint64_t more = 0;
    const auto count = [&](auto&& counts) {
      for (const Job* other : line_) {
        if (other->id == job.id) break;
        if (other->gpus == 0 || !counts(*other)) continue;
        if (before.size() < 3) before.push_back(std::to_string(other->id));
        else ++more;
      }
    };
    count([&](const Job& other) { return other.request_class == job.request_class; });
    if (before.empty() && job.counts[TaskState::running] == 0 && !ticket(job)) count([](const Job&) { return true; });
    if (before.empty()) return std::nullopt;
    std::string text = "behind " + join(before, ",");
    if (more > 0) text += fmt::format(" and {} more", more);
    return JobWait{"jobs", text, before.size() + more};
  }

  // Our ticket in the machine's line: the runner keeps one for the first job of a kind.
  std::optional<std::size_t> ticket(const Job& job) const {
    if (!machine_) return std::nullopt;
    for (std::size_t i = 0; i < machine_->queue.size(); ++i) {
      const model::Waiting& waiting = machine_->queue[i].waiting;
      if (waiting.uid == machine_->uid && waiting.count == job.gpus && waiting.leave == jobs_.spec(job.id).leave) return i;
    }
    return std::nullopt;
  }

  std::optional<JobWait> in_line(const Job& job) const {
    const auto at = ticket(job);
    if (!at) return std::nullopt;
    const auto& [mine, promise] = machine_->queue[*at];
    const auto competes = [&, &wanted = mine.eligible](const model::Waiting& other) {
      return std::any_of(other.eligible.begin(), other.eligible.end(),
                         [&](const std::string& key) { return std::find(wanted.begin(), wanted.end(), key) != wanted.end(); });
    };
    unsigned position = 1;
    const model::Waiting* before = nullptr;
    for (std::size_t i = 0; i < *at; ++i)
      if (competes(machine_->queue[i].waiting)) {
        ++position;
        if (!machine_->queue[i].waiting.stopped) before = &machine_->queue[i].waiting;
      }
    std::string text = position == 1 ? "next in line" : plan::ordinal(position) + " in line";
    if (before) text += fmt::format(", behind {} ({})", printable(before->user, 32), plural(before->count, "GPU"));
    else if (std::string held = holders(mine.eligible); !held.empty()) text += "; " + held;
    if (promise) text += fmt::format("; by {}", format_local(*promise, now_));
    return JobWait{"line", text};
  }

  // Before its ticket is written, or while a lane hands its claim on.
  std::optional<JobWait> too_few_free(const Job& job) const {
    std::vector<std::string> keys;
    std::size_t idle = 0;
    for (const UnitOverview& unit : machine_->units) {
      keys.push_back(unit.unit.key);
      idle += unit.state == State::idle;
    }
    if (idle >= job.gpus || job.counts[TaskState::running] > 0) return std::nullopt;
    const std::string held = holders(keys);
    return JobWait{"line", fmt::format("next, when {} free{}", job.gpus == 1 ? "a GPU is" : plural(job.gpus, "GPU") + " are",
                                       held.empty() ? "" : "; " + held)};
  }

  // "GPU 0,1 anna, GPU 3 bert"
  std::string holders(const std::vector<std::string>& keys) const {
    std::vector<std::pair<std::string, std::vector<std::string>>> by_user;
    for (const UnitOverview& unit : machine_->units) {
      if (std::find(keys.begin(), keys.end(), unit.unit.key) == keys.end() || unit.state == State::idle) continue;
      std::string who = unit.holdings.empty() ? to_string(unit.state) : printable(unit.holdings.front().user, 32);
      if (!unit.holdings.empty() && unit.holdings.front().uid == machine_->uid) who = "yours";
      auto same = std::find_if(by_user.begin(), by_user.end(), [&](const auto& one) { return one.first == who; });
      if (same == by_user.end()) same = by_user.insert(by_user.end(), {who, {}});
      same->second.push_back(unit.unit.label);
    }
    std::vector<std::string> words;
    for (const auto& [who, labels] : by_user) words.push_back(fmt::format("GPU {} {}", join(labels, ","), who));
    return join(words, ", ");
  }

  port::JobReader& jobs_;
  const Overview* machine_;
  bool draining_;
  WallTime now_;
  std::string full_disk_;                        // the queue's directory, where nothing can be written
  std::string runner_kept_;                      // why its runner can begin nothing
  std::map<std::uint64_t, PutOff> put_off_;      // by request class
  std::vector<const Job*> line_;                 // those that could go now, in their order
};

JobLine line_of(port::JobReader& jobs, const Job& job, const Overview* machine, const Reasons& reasons, WallTime now,
                port::QueueDoor* door) {
  JobLine line;
  line.job = job;
  line.job.counts = counts_of(job);
  line.state = state_of(job);
  bool any_untold = false;                       // of these nobody knows an end
  if (job.counts[TaskState::running] > 0) {
    bool all_paused = true;
    for (const model::Task& task : jobs.tasks(job.id, 0, most_asked, {TaskState::running})) {
      all_paused = all_paused && task.paused;
      any_untold = any_untold || task.lane == model::lane_of_untold;
      if (const auto end = door ? unwritten_end(*door, task, now) : std::nullopt) line.unwritten.emplace_back(task.index, *end);
      for (const std::string& key : task.gpus) {
        std::string label = label_of(key, machine);
        if (std::find(line.gpus.begin(), line.gpus.end(), label) == line.gpus.end()) line.gpus.push_back(std::move(label));
      }
    }
    // In the machine's order, not in that in which tasks happen to have begun: it would change with each of them.
    std::ranges::sort(line.gpus, {},
                      [](const std::string& label) { return std::pair(std::strtoul(label.c_str(), nullptr, 10), label); });
    if (all_paused) line.state = "paused";
    if (line.unwritten.size() == job.counts[TaskState::running])
      line.all_over = std::ranges::max(line.unwritten, {}, [](const auto& one) { return one.second.at; }).second.at;
  }
  if (job.tasks == 1 && job.started)
    if (std::vector<model::Task> tasks = tasks_of(jobs, job, 0, 0, {}); !tasks.empty())
      line.only_task = std::move(tasks.front());
  if (line.only_task)
    for (const std::string& key : line.only_task->gpus) line.last_gpus.push_back(label_of(key, machine));
  line.wait = reasons.of(job);
  if (!any_untold) line.expected_end = expected_end(job, now);
  return line;
}

bool is_wished(const Job& job, const JobListWish& wish) {
  const model::TaskCounts counts = counts_of(job);
  if (!wish.states.empty() &&
      std::none_of(wish.states.begin(), wish.states.end(), [&](TaskState state) { return counts[state] > 0; }))
    return false;
  return std::all_of(wish.tags.begin(), wish.tags.end(), [&](const std::string& tag) {
    return std::find(job.tags.begin(), job.tags.end(), tag) != job.tags.end();
  });
}

}  // namespace

std::optional<port::NotedEnd> unwritten_end(port::LaneDoor& door, const model::Task& task, WallTime now) {
  const std::optional<port::NotedEnd> end = door.noted_end(task);
  return end && now - end->at > written_by ? end : std::nullopt;
}

std::string why_unwritten(const std::string& full_disk) {
  return full_disk.empty() ? "it is tried again soon" : "disk full: " + printable(full_disk, 200);
}

std::string why_perhaps_old(const std::string& read_only_disk) {
  return fmt::format("the queue's disk can only be read from here (dmesg may say why): what has ended since may still be shown "
                     "as running: {}", printable(read_only_disk, 200));
}

std::string label_of(const std::string& key, const Overview* machine) {
  if (machine)
    for (const UnitOverview& unit : machine->units)
      if (unit.unit.key == key) return unit.unit.label;
  return key;
}

model::TaskCounts counts_of(const Job& job) {
  model::TaskCounts counts = job.counts;
  if (job.terms.held) counts[TaskState::held] += std::exchange(counts[TaskState::queued], 0);
  return counts;
}

std::string state_of(const Job& job) { return state_of(counts_of(job)); }

std::string state_of(const model::TaskCounts& counts) {
  for (const TaskState state : {TaskState::running, TaskState::queued, TaskState::held})
    if (counts[state] > 0) return to_string(state);
  return outcome_of(counts);
}

std::vector<model::Task> tasks_of(port::JobReader& jobs, const Job& job, model::TaskIndex first, model::TaskIndex last,
                                  const std::set<TaskState>& states) {
  std::set<TaskState> stored = states;
  if (job.terms.held && states.contains(TaskState::held)) stored.insert(TaskState::queued);
  std::vector<model::Task> tasks;
  for (model::Task& task : jobs.tasks(job.id, first, last - first + 1, stored)) {
    if (task.index > last) break;
    if (job.terms.held && task.state == TaskState::queued) task.state = TaskState::held;
    if (states.empty() || states.contains(task.state)) tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string outcome_of(const model::TaskCounts& counts) {
  for (const TaskState state : {TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::skipped})
    if (counts[state] > 0) return to_string(state);
  return to_string(TaskState::done);
}

std::optional<WallTime> expected_end(const Job& job, WallTime now) {
  const std::uint64_t running = job.counts[TaskState::running];
  if (running == 0 || job.ran == 0 || job.tasks == 1) return std::nullopt;
  const double rest =
      static_cast<double>(open_tasks(job)) + static_cast<double>(running) / 2;  // running ones are half done, say
  const double milliseconds =
      rest * static_cast<double>(job.busy.count()) / static_cast<double>(job.ran) / static_cast<double>(running);
  if (milliseconds > 3.15e11) return std::nullopt;  // ten years: nothing is known yet
  return now + Millis(static_cast<std::int64_t>(milliseconds));
}

JobList list_jobs(port::JobReader& jobs, const Overview* machine, const JobListWish& wish, WallTime now,
                  port::QueueDoor* door) {
  const auto moment = jobs.one_moment();          // else a job that ends meanwhile stands in both halves
  JobList list;
  list.now = now;
  list.draining = jobs.draining();
  if (door) list.full_disk = door->full_disk();
  port::JobQuery query;
  query.unended_only = true;
  std::vector<Job> unended = jobs.jobs(query);   // all of them: what one waits for are the others
  const Reasons reasons(jobs, machine, unended, list.draining, now, list.full_disk, door);
  std::vector<Job> shown;
  if (wish.which) {
    shown = jobs_of(jobs, *wish.which);
  } else {
    query.unended_only = false;
    query.ended_since = wish.ended_since;
    for (Job& job : jobs.jobs(query))
      if (job.counts.ended() == job.tasks) shown.push_back(std::move(job));
    shown.insert(shown.end(), unended.begin(), unended.end());
  }
  std::erase_if(shown, [&](const Job& job) { return !is_wished(job, wish); });
  const auto rank = [](const Job& job) {
    return job.counts.ended() == job.tasks ? 0 : job.counts[TaskState::running] > 0 ? 1 : 2;
  };
  std::vector<const Job*> waiting;
  for (const Job& job : shown)
    if (rank(job) == 2) waiting.push_back(&job);
  plan::put_in_order(waiting);
  std::map<model::JobId, std::size_t> order;     // in the order in which they go
  for (const Job* job : waiting) order.emplace(job->id, order.size());
  std::stable_sort(shown.begin(), shown.end(), [&](const Job& a, const Job& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 2 ? order.at(a.id) < order.at(b.id) : a.id < b.id;
  });
  std::uint64_t ended = 0, queued = 0;
  for (const Job& job : shown) {
    list.tasks += counts_of(job);
    ended += rank(job) == 0;
  }
  if (ended > wish.most_ended) list.untold_ended = ended - wish.most_ended;
  std::uint64_t skip = list.untold_ended;
  for (const Job& job : shown) {
    if (rank(job) == 0 && skip > 0) {
      --skip;
      continue;
    }
    if (rank(job) == 2 && queued++ >= wish.most_queued) {
      ++list.untold_queued;
      continue;
    }
    list.lines.push_back(line_of(jobs, job, machine, reasons, now, door));
  }
  return list;
}

}  // namespace thole::app
