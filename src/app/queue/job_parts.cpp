#include "app/queue/job_parts.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/text.hpp"

namespace thole::app {

using model::Job;
using model::TaskState;

namespace {

// Tasks that are not told one by one are all in the same state: none has begun, or all the rest was cancelled at once.
model::TaskCounts counts_among(port::JobReader& jobs, const Job& job, const model::TaskRange& range) {
  model::TaskCounts counts;
  model::TaskIndex untold = range.first;         // the first of them
  std::uint64_t rest = range.second - range.first + 1;
  for (const model::Task& task : tasks_of(jobs, job, range.first, range.second, {})) {
    ++counts[task.state];
    --rest;
    untold += task.index == untold;
  }
  const auto task = rest > 0 ? jobs.task(job.id, untold) : std::nullopt;
  if (task) counts[job.terms.held && task->state == TaskState::queued ? TaskState::held : task->state] += rest;
  return counts;
}

}  // namespace

std::string JobPart::name() const {
  return tasks ? model::name_of(job.id, *tasks) : std::to_string(job.id);
}

JobPart whole(const Job& job) { return {job, std::nullopt, counts_of(job)}; }

std::vector<JobPart> parts_of(port::JobReader& jobs, const std::vector<port::Selection>& which) {
  const auto moment = jobs.one_moment();
  std::set<model::JobId> as_a_whole;             // of those jobs of which some tasks are named
  std::map<model::JobId, std::vector<model::TaskRange>> ranges;
  for (const port::Selection& one : which) {
    if (!one.tasks) continue;
    std::vector<model::TaskRange>& of_job = ranges[one.first];
    if (std::ranges::find(of_job, *one.tasks) == of_job.end()) of_job.push_back(*one.tasks);
  }
  for (const port::Selection& one : which)
    if (!one.tasks)
      for (auto job = ranges.lower_bound(one.first); job != ranges.end() && job->first <= one.last; ++job)
        as_a_whole.insert(job->first);
  std::vector<JobPart> all;
  for (const Job& job : jobs_of(jobs, which)) {
    const auto found = ranges.find(job.id);
    if (found == ranges.end() || as_a_whole.contains(job.id)) all.push_back(whole(job));
    else
      for (const model::TaskRange& range : found->second) all.push_back({job, range, counts_among(jobs, job, range)});
  }
  return all;
}

}  // namespace thole::app
