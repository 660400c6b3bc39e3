#include "app/queue/untold_tasks.hpp"

#include <utility>

#include "base/text.hpp"
#include "model/lane_record.hpp"
#include "model/task_ranges.hpp"

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
  std::vector<std::string> names;
  for (const model::TaskRange& range : model::ranges_of(std::move(tasks))) names.push_back(model::name_of(job, range));
  return join(names, ",");
}

}  // namespace thole::app
