#include "app/queue/job_names.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/names.hpp"

namespace thole::app {

using model::Job;
using plan::TaskName;
using port::JobQuery;
using port::Selection;

namespace {

constexpr std::uint64_t most_suggested = 1000;   // names to look through for the nearest one
constexpr model::JobId no_end = ~model::JobId{0} >> 1;

std::vector<Job> query_ids(port::JobReader& jobs, model::JobId first, model::JobId last, std::uint64_t limit) {
  JobQuery query;
  query.ids = {{first, last, std::nullopt}};
  query.limit = limit;
  return jobs.jobs(query);
}

[[noreturn]] void throw_none_at_all(const TaskName& name) {
  throw Error(ErrorCode::usage, fmt::format("no job {}: nothing has been submitted", printable(name.word, 60)))
      .hint("such as: thole submit python train.py");
}

[[noreturn]] void throw_no_number(port::JobReader& jobs, const TaskName& name) {
  const std::optional<Job> newest = newest_job(jobs);
  if (!newest) throw_none_at_all(name);
  throw Error(ErrorCode::usage, fmt::format("no job {}", printable(name.word, 60)))
      .hint(name.numbers.first > newest->id ? fmt::format("the newest is {}", newest->id)
                                            : "thole jobs --all names them; old ones are forgotten");
}

[[noreturn]] void throw_no_name(port::JobReader& jobs, const TaskName& name) {
  JobQuery query;
  query.newest_first = true;
  query.limit = most_suggested;
  std::vector<std::string> known;
  for (const Job& job : jobs.jobs(query)) {
    if (!job.name.empty()) known.push_back(job.name);
    known.insert(known.end(), job.tags.begin(), job.tags.end());
  }
  const auto near = nearest(name.name, known);
  throw Error(ErrorCode::usage, fmt::format("no job has the name or the tag \"{}\"", printable(name.name, 60)))
      .hint(near ? fmt::format("did you mean {}?", *near) : "thole jobs names them");
}

// Jobs by name, else by tag: those that have not ended, and where there are none the newest of the ended ones.
std::vector<Job> query_name(port::JobReader& jobs, const TaskName& name) {
  for (const bool by_tag : {false, true}) {
    JobQuery query;
    if (by_tag) query.tags = {name.name};
    else query.name = name.name;
    query.unended_only = true;
    std::vector<Job> found = jobs.jobs(query);
    if (!found.empty()) return found;
    query.unended_only = false;
    query.newest_first = true;
    if (!by_tag) query.limit = 1;
    found = jobs.jobs(query);
    if (!found.empty()) return found;
  }
  throw_no_name(jobs, name);
}

void check_tasks(const TaskName& name, const Job& job) {
  if (name.tasks->first >= job.tasks)
    throw Error(ErrorCode::usage, fmt::format("no task {}.{}", job.id, name.tasks->first))
        .hint(job.tasks == 1 ? fmt::format("job {} has one task, {}.0", job.id, job.id)
                             : fmt::format("job {} has the tasks 0 to {}", job.id, job.tasks - 1));
}

void add(std::vector<Selection>& all, port::JobReader& jobs, const TaskName& name) {
  const auto tasks_of = [&](const Job& job) -> std::optional<std::pair<model::TaskIndex, model::TaskIndex>> {
    if (!name.tasks) return std::nullopt;
    check_tasks(name, job);
    return std::pair{name.tasks->first, std::min(name.tasks->last, job.tasks - 1)};
  };
  switch (name.jobs) {
    case TaskName::Jobs::all: return all.push_back({1, no_end, std::nullopt});
    case TaskName::Jobs::newest: {
      const std::optional<Job> newest = newest_job(jobs);
      if (!newest) throw_none_at_all(name);
      return all.push_back({newest->id, newest->id, tasks_of(*newest)});
    }
    case TaskName::Jobs::numbered: {
      const auto found = query_ids(jobs, name.numbers.first, name.numbers.last, 1);
      if (found.empty()) throw_no_number(jobs, name);
      return all.push_back({name.numbers.first, name.numbers.last, tasks_of(found.front())});
    }
    case TaskName::Jobs::named:
      for (const Job& job : query_name(jobs, name)) all.push_back({job.id, job.id, tasks_of(job)});
      return;
  }
}

}  // namespace

std::optional<Job> job_of(port::JobReader& jobs, model::JobId id) {
  std::vector<Job> found = query_ids(jobs, id, id, 1);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::optional<Job> newest_job(port::JobReader& jobs) {
  JobQuery query;
  query.newest_first = true;
  query.limit = 1;
  std::vector<Job> found = jobs.jobs(query);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<Selection> selections(port::JobReader& jobs, const std::vector<std::string>& words) {
  std::vector<Selection> all;
  for (const std::string& word : words)
    for (const TaskName& name : plan::parse_task_names(word)) add(all, jobs, name);
  return all;
}

std::vector<model::Dependency> dependencies(port::JobReader& jobs, const std::vector<std::string>& words) {
  std::vector<model::Dependency> all;
  for (const std::string& word : words)
    for (const plan::AfterName& after : plan::parse_after_names(word)) {
      if (after.name.tasks)
        throw Error(ErrorCode::usage, fmt::format("--after {}: a job waits for whole jobs", printable(after.name.word, 60)));
      std::vector<Selection> found;
      add(found, jobs, after.name);
      for (const Job& job : jobs_of(jobs, found)) {
        const model::Dependency one{job.id, after.when};
        if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
      }
    }
  return all;
}

std::vector<Job> jobs_of(port::JobReader& jobs, const std::vector<Selection>& selections) {
  if (selections.empty()) return {};
  JobQuery query;
  query.ids = selections;
  std::vector<Job> found = jobs.jobs(query);
  std::sort(found.begin(), found.end(), [](const Job& a, const Job& b) { return a.id < b.id; });
  found.erase(std::unique(found.begin(), found.end(), [](const Job& a, const Job& b) { return a.id == b.id; }), found.end());
  return found;
}

}  // namespace thole::app
