#include "app/untold_tasks.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "model/lane_record.hpp"

namespace thole::app {

std::vector<model::TaskIndex> untold_tasks(port::JobReader& jobs, const model::Job& job,
                                           std::pair<model::TaskIndex, model::TaskIndex> range) {
  std::vector<model::TaskIndex> untold;
  if (job.counts[model::TaskState::running] == 0) return untold;
  for (const model::Task& task : jobs.tasks(job.id, range.first, range.second - range.first + 1, {model::TaskState::running}))
    if (task.lane == model::lane_of_untold && task.index <= range.second) untold.push_back(task.index);
  return untold;
}

std::string untold_text(std::uint64_t count) {
  return fmt::format("{} of its tasks may have begun elsewhere", count);
}

std::string names_of(model::JobId job, std::vector<model::TaskIndex> tasks) {
  std::ranges::sort(tasks);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tasks.size();) {
    const std::size_t first = i;
    while (++i < tasks.size() && tasks[i] <= tasks[i - 1] + 1) {}
    names.push_back(tasks[first] == tasks[i - 1] ? fmt::format("{}.{}", job, tasks[first])
                                                 : fmt::format("{}.{}-{}", job, tasks[first], tasks[i - 1]));
  }
  return join(names, ",");
}

}  // namespace thole::app
