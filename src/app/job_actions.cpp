#include "app/job_actions.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "app/job_names.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "plan/task_names.hpp"

namespace thole::app {

using model::Job;
using model::TaskState;

std::vector<port::Altered> alter(Queue queue, const std::vector<port::Selection>& which, port::Verb verb) {
  std::vector<port::Altered> altered = queue.store.alter(which, verb, queue.clock.wall());
  std::set<std::uint64_t> lanes;
  bool changed = false;
  for (const port::Altered& job : altered) {
    changed = changed || job.changed > 0;
    for (const model::Task& task : job.running) lanes.insert(task.lane);
  }
  for (const std::uint64_t lane : lanes) queue.door.nudge(lane);
  if (changed) queue.door.stir();
  return altered;
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

void edit(Queue queue, const std::vector<Job>& jobs, const port::TermsChange& change) {
  for (const Job& job : jobs) {                  // all may be changed before one is
    if (job.counts[TaskState::queued] + job.counts[TaskState::held] > 0) continue;
    const bool running = job.counts[TaskState::running] > 0;
    throw Error(ErrorCode::usage,
                fmt::format("job {} has {}: only what has not started can be changed", job.id, running ? "started" : "ended"))
        .hint(running ? fmt::format("thole cancel {} ends it; thole extend gives a claim more time", job.id)
                      : fmt::format("thole retry {} queues again what has not succeeded", job.id));
  }
  if (change.after) check_circle(queue.store, jobs, *change.after);
  for (const Job& job : jobs) queue.store.edit(job.id, change, queue.clock.wall());
  queue.door.stir();
}

void keep_going(Queue queue) {
  if (queue.door.runner() || queue.store.draining()) return;
  port::JobQuery query;
  query.unended_only = true;
  query.limit = 1;
  if (!queue.store.jobs(query).empty()) queue.door.stir();
}

void drain(Queue queue, bool on) {
  queue.store.drain(on);
  if (!on) queue.door.stir();
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

// Jobs that are waited for: those selected, or where nothing is, those that have not ended when the wait begins.
class Waiter {
 public:
  Waiter(port::JobReader& jobs, const std::vector<port::Selection>& which) : jobs_(jobs), which_(which) {
    port::JobQuery query;
    query.unended_only = true;
    if (which.empty()) {
      for (const Job& job : jobs.jobs(query)) which_.push_back({job.id, job.id, std::nullopt});
      return;
    }
    for (port::Selection& selection : which_)
      selection.last = std::min(selection.last, newest_job(jobs_)->id);  // not those to come
  }

  std::vector<Job> now() { return jobs_of(jobs_, which_); }

  bool over(const std::vector<Job>& now, bool any) {
    std::size_t ended = 0;
    for (const Job& job : now)
      if (std::all_of(which_.begin(), which_.end(), [&](const port::Selection& selection) {
            return job.id < selection.first || job.id > selection.last || has_ended(jobs_, job, selection.tasks);
          }))
        ++ended;
    return ended == now.size() || (any && ended > 0);
  }

  bool of_tasks() const {
    return std::any_of(which_.begin(), which_.end(),
                       [](const port::Selection& selection) { return selection.tasks.has_value(); });
  }

 private:
  port::JobReader& jobs_;
  std::vector<port::Selection> which_;
};

}  // namespace

Awaited await(port::JobReader& jobs, const port::Clock& clock, const std::vector<port::Selection>& which,
              const AwaitOptions& options) {
  Waiter waiter(jobs, which);
  const auto watch = jobs.watch(waiter.of_tasks() ? port::Changes::any : port::Changes::job_ended);
  std::optional<SteadyTime> end;
  if (options.timeout) end = clock.steady() + *options.timeout;
  for (;;) {
    Awaited awaited{Awaited::Why::ended, waiter.now()};
    if (waiter.over(awaited.jobs, options.any)) return awaited;
    std::vector<pollfd> sleepers{{watch->fd(), POLLIN, 0}};
    for (const int fd : options.cancel) sleepers.push_back({fd, POLLIN, 0});
    const int woken = ::poll(sleepers.data(), sleepers.size(), poll_timeout(end, clock.steady()));
    if (woken < 0 && errno != EINTR) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (woken == 0) {
      awaited.why = Awaited::Why::timed_out;
      return awaited;
    }
    for (std::size_t i = 1; woken > 0 && i < sleepers.size(); ++i)
      if (sleepers[i].revents) {
        awaited.why = Awaited::Why::interrupted;
        return awaited;
      }
    if (woken > 0 && sleepers.front().revents) watch->drain();
  }
}

}  // namespace thole::app
