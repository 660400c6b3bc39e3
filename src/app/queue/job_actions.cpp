#include "app/queue/job_actions.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "app/queue/change_watch.hpp"
#include "app/queue/going_on.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/untold_tasks.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "plan/job/names.hpp"

namespace thole::app {

using model::Job;
using model::TaskState;

namespace {

Caution told(const std::function<void()>& tell) {
  try {
    tell();
    return "";
  } catch (const Error& error) {
    return fmt::format("it is stored, but nobody can act on it now: {}\n"
                       "  any later thole command that looks at the queue tries again, such as: thole jobs", error.full());
  }
}

constexpr std::size_t most_unseen = 5;           // tasks that are named
constexpr std::uint64_t most_looked_at = 128;    // running tasks of a job that is waited for

std::string all_names(const std::map<model::JobId, std::vector<model::TaskIndex>>& tasks) {
  std::vector<std::string> names;
  for (const auto& [job, some] : tasks) names.push_back(names_of(job, some));
  return join(names, ",");
}

// Of whom the store was told something that the runner cannot do.
Caution of_unseen(Queue queue, HashKey secret, const std::vector<std::vector<model::Task>>& running) {
  std::vector<std::string> names;
  std::map<model::JobId, std::vector<model::TaskIndex>> unseen_tasks;
  std::optional<port::UnseenRun> first;
  for (const std::vector<model::Task>& tasks : running)
    for (const model::Task& task : tasks) {
      const auto unseen = names.size() <= most_unseen ? queue.door.unseen(task, task_mark(secret, task)) : std::nullopt;
      if (!unseen) continue;
      names.push_back(fmt::format("{}.{}", task.job, task.index));
      if (names.size() <= most_unseen) unseen_tasks[task.job].push_back(task.index);
      if (!first) first = unseen;
    }
  if (!first) return "";
  if (names.size() > most_unseen) names.back() = "…";
  const std::string unreached =
      fmt::format("{}: the lane cannot be reached, and the queue's runner does not see what is left: {}\n  ",
                  join(names, ", "), first->why);
  if (first->by == port::UnseenBy::hidden) return unreached + "it counts as running until nothing has that lock";
  const bool is_copy = first->by == port::UnseenBy::original;
  return fmt::format("{}{}; if it is over: thole cancel --force {}", unreached,
                     is_copy ? "it is left alone, and counts as running here"
                             : "the first runner that sees it does what was asked",
                     all_names(unseen_tasks));
}

Caution of_unseen_if_told(Queue queue, HashKey secret, const std::vector<std::vector<model::Task>>& running) {
  try {
    return of_unseen(queue, secret, running);
  } catch (const Error& error) {
    return "it is stored, but whether the queue's runner sees what runs cannot be told: " + error.full();
  }
}

void append(Caution& all, const Caution& one) {
  if (!all.empty() && !one.empty()) all += "\n";
  all += one;
}

}  // namespace

// Whatever fails once the store has changed is a caution.
Alteration alter(Queue queue, const std::vector<port::Selection>& which, port::Verb verb) {
  const HashKey secret = queue.store.secret();
  Alteration altered{queue.store.alter(which, verb, queue.clock.wall()), ""};
  std::set<std::uint64_t> lanes;
  std::vector<std::vector<model::Task>> running;
  bool changed = false;
  for (const port::Altered& job : altered.jobs) {
    running.push_back(job.running);
    changed = changed || job.changed > 0;
    for (const model::Task& task : job.running) lanes.insert(task.lane);
  }
  for (const std::uint64_t lane : lanes)
    static_cast<void>(told([&] { queue.door.nudge(lane); }));   // one that it does not reach the runner tells
  Caution kept = told([&] {
    if (changed) relieve(queue, true);
    else keep_going(queue);
  });
  Caution caution = changed ? told([&] { queue.door.stir(); }) : "";   // whoever sits
  altered.caution = std::move(caution.empty() ? kept : caution);
  if (verb != port::Verb::give_up) append(altered.caution, of_unseen_if_told(queue, secret, running));
  return altered;
}

Caution of_originals(Queue queue, const std::vector<port::Selection>& which) {
  port::JobQuery query;
  query.ids = which;
  query.unended_only = true;
  const HashKey secret = queue.store.secret();
  std::vector<std::vector<model::Task>> running;
  for (const Job& job : queue.store.jobs(query)) {
    if (job.counts[TaskState::running] == 0) continue;
    running.push_back(queue.store.tasks(job.id, 0, most_looked_at, {TaskState::running}));
    std::erase_if(running.back(), [&](const model::Task& task) {
      const auto selects_it = [&](const port::Selection& one) {
        const bool its_job = one.first <= task.job && task.job <= one.last;
        return its_job && (!one.tasks || (one.tasks->first <= task.index && task.index <= one.tasks->second));
      };
      if (!which.empty() && std::ranges::none_of(which, selects_it)) return true;
      const auto unseen = queue.door.unseen(task, task_mark(secret, task));
      return !unseen || unseen->by != port::UnseenBy::original;
    });
  }
  return of_unseen(queue, secret, running);
}

Alteration give_up(Queue queue, const std::vector<port::Selection>& which) {
  static_cast<void>(told([&] { keep_going(queue); }));   // for one that sees more; whoever keeps it is told below
  const HashKey secret = queue.store.secret();
  for (const Job& job : jobs_of(queue.store, which))
    for (const port::Selection& one : which) {
      if (job.id < one.first || job.id > one.last) continue;
      const auto tasks = one.tasks.value_or(std::pair(model::TaskIndex{0}, job.tasks - 1));
      for (const model::Task& task : queue.store.tasks(job.id, tasks.first, job.tasks, {TaskState::running})) {
        if (task.index > tasks.second) break;
        const auto unseen = queue.door.unseen(task, task_mark(secret, task));
        const std::string name = fmt::format("{}.{}", task.job, task.index);
        if (!unseen)
          throw Error(ErrorCode::usage, fmt::format("task {} is seen from here, and runs: nothing has to be forced", name))
              .hint(fmt::format("thole cancel {} ends it", name));
        if (!unseen->locked) continue;
        std::string why = unseen->why;           // of what is hidden: its lock
        if (unseen->by != port::UnseenBy::hidden) why = "something of it has its lane's lock (" + why + ")";
        throw Error(ErrorCode::usage, fmt::format("task {} is not over: {}", name, why));
      }
    }
  return alter(queue, which, port::Verb::give_up);
}

namespace {

// The store refuses a circle too, of which it can name the ends only.
void check_circle(port::JobReader& reader, const std::vector<Job>& jobs, const std::vector<model::Dependency>& after) {
  plan::Dependencies waits_for;
  port::JobQuery query;
  query.unended_only = true;
  for (const Job& job : reader.jobs(query))
    for (const model::Dependency& one : job.terms.after) waits_for[job.id].push_back(one.job);
  for (const Job& job : jobs) {
    waits_for[job.id].clear();
    for (const model::Dependency& one : after) waits_for[job.id].push_back(one.job);
  }
  std::vector<std::string> names;
  for (const std::uint64_t job : plan::find_cycle(waits_for)) names.push_back(std::to_string(job));
  if (!names.empty())
    throw Error(ErrorCode::usage, "jobs that wait for each other would never start: " + plan::describe_cycle(names));
}

}  // namespace

Caution edit(Queue queue, const std::vector<Job>& jobs, const port::TermsChange& change) {
  for (const Job& job : jobs) {                  // all may be changed before one is
    if (job.counts[TaskState::queued] + job.counts[TaskState::held] > 0) continue;
    if (change.after && job.counts[TaskState::skipped] > 0) continue;   // then `retry` asks what it waits for from now on
    const bool running = job.counts[TaskState::running] > 0;
    throw Error(ErrorCode::usage,
                fmt::format("job {} has {}: only what has not started can be changed", job.id, running ? "started" : "ended"))
        .hint(running ? fmt::format("what runs keeps its terms; thole pause {0} stops it, and its limit, for a while; "
                                    "thole cancel {0} ends it", job.id)
                      : fmt::format("thole retry {} queues again what has not succeeded", job.id));
  }
  if (change.after) check_circle(queue.store, jobs, *change.after);
  std::vector<model::JobId> ids;
  for (const Job& job : jobs) ids.push_back(job.id);
  queue.store.edit(ids, change, queue.clock.wall());
  return told([&] { queue.door.stir(); });
}

Caution drain(Queue queue, bool on) {
  queue.store.drain(on);
  return told([&] {
    if (on) keep_going(queue);                   // what ran may still have to be explained
    else queue.door.stir();
  });
}

bool has_ended(port::JobReader& jobs, const Job& job,
               const std::optional<std::pair<model::TaskIndex, model::TaskIndex>>& tasks) {
  if (job.counts.ended() == job.tasks) return true;
  if (!tasks) return false;
  // Tasks that were never touched have no record of their own, so as many records must have ended as there are tasks.
  const std::uint64_t wanted = tasks->second - tasks->first + 1;
  std::uint64_t ended = 0;
  for (const model::Task& task : jobs.tasks(job.id, tasks->first, wanted)) {
    if (task.index > tasks->second) break;
    if (!model::ended(task.state)) return false;
    ++ended;
  }
  return ended == wanted;
}

namespace {

// Jobs that are waited for: those selected, or where nothing is, those that have not ended when the wait begins. There may be
// very many of both, and it looks at each end of any job: so it remembers one that is still open.
class Waiter {
 public:
  Waiter(port::JobReader& jobs, const std::vector<port::Selection>& which, std::optional<model::JobId> inside)
      : jobs_(jobs), which_(which) {
    if (which.empty()) {
      port::JobQuery query;
      query.unended_only = true;
      for (const Job& job : jobs.jobs(query)) {
        if (job.id == inside) continue;
        if (!which_.empty() && which_.back().last + 1 == job.id) which_.back().last = job.id;
        else which_.push_back({job.id, job.id, std::nullopt});
      }
      return;
    }
    const std::optional<Job> newest = newest_job(jobs);   // not those to come
    for (port::Selection& selection : which_) {
      if (newest) selection.last = std::min(selection.last, newest->id);
      if (selection.tasks) tasks_[selection.first].push_back(*selection.tasks);
    }
  }

  // One that has not ended where all have to. The newest: as a rule it ends last, so that of very many few are asked for.
  bool some_job_is_open() {
    if (of_tasks() || which_.empty()) return false;
    if (open_)
      if (const auto job = job_of(jobs_, *open_); job && job->counts.ended() < job->tasks) return true;
    port::JobQuery query;
    query.unended_only = true;
    query.newest_first = true;
    query.limit = 1;
    for (const port::Selection& one : which_)
      if (one.first <= open_.value_or(one.first))
        query.ids.push_back({one.first, std::min(one.last, open_.value_or(one.last)), std::nullopt});
    open_.reset();                               // a later one may have been queued again: the last look is at all
    if (query.ids.empty()) return false;
    const std::vector<Job> open = jobs_.jobs(query);
    if (!open.empty()) open_ = open.front().id;
    return open_.has_value();
  }

  std::vector<Job> now() { return jobs_of(jobs_, which_); }

  bool over(const std::vector<Job>& now, bool any) {
    const auto ended =
        static_cast<std::size_t>(std::ranges::count_if(now, [this](const Job& job) { return is_over(job); }));
    return ended == now.size() || (any && ended > 0);
  }

  bool of_tasks() const { return !tasks_.empty(); }

 private:
  bool is_over(const Job& job) {
    if (job.counts.ended() == job.tasks) return true;
    const auto tasks = tasks_.find(job.id);
    if (tasks == tasks_.end()) return false;
    const bool as_a_whole = std::ranges::any_of(
        which_, [&](const port::Selection& one) { return !one.tasks && one.first <= job.id && job.id <= one.last; });
    return !as_a_whole && std::ranges::all_of(tasks->second, [&](const auto& some) { return has_ended(jobs_, job, some); });
  }

  port::JobReader& jobs_;
  std::vector<port::Selection> which_;
  std::map<model::JobId, std::vector<std::pair<model::TaskIndex, model::TaskIndex>>> tasks_;   // where only some are waited for
  std::optional<model::JobId> open_;
};

}  // namespace

Awaited await(port::JobReader& jobs, const port::Clock& clock, const std::vector<port::Selection>& which,
              const AwaitOptions& options) {
  Waiter waiter(jobs, which, options.inside);
  const port::Changes what = waiter.of_tasks() ? port::Changes::any : port::Changes::job_ended;
  ChangeWatch watch(jobs, what);
  std::optional<SteadyTime> end;
  if (options.timeout) end = clock.steady() + *options.timeout;
  for (bool late = false;;) {
    Awaited awaited{Awaited::Why::ended, {}};
    if (options.any || !waiter.some_job_is_open()) {
      awaited.jobs = waiter.now();
      if (waiter.over(awaited.jobs, options.any)) return awaited;
    }
    if (late) return {Awaited::Why::timed_out, waiter.now()};
    options.before_sleep();
    std::optional<SteadyTime> deadline = end;
    if (options.going_on) {
      options.going_on->look();
      deadline = std::min(end.value_or(SteadyTime::max()), options.going_on->next_look());
    }
    if (!watch.is_told()) deadline = std::min(deadline.value_or(SteadyTime::max()), clock.steady() + watch.patience());
    std::vector<int> wakers(options.cancel.begin(), options.cancel.end());
    wakers.push_back(watch.fd());
    if (options.going_on) wakers.push_back(options.going_on->fd());
    const auto woken = wait_for(wakers, deadline, clock.steady());
    if (!woken) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    const auto watched = woken->begin() + static_cast<std::ptrdiff_t>(options.cancel.size());
    if (std::find(woken->begin(), watched, true) != watched) return {Awaited::Why::interrupted, waiter.now()};
    if (*watched) watch.drain();
    watch.renew();
    late = end && clock.steady() >= *end;        // whatever else woke us; one more look at the jobs is due
  }
}

}  // namespace thole::app
