#include "model/task_ranges.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::model {

std::vector<TaskRange> ranges_of(std::vector<TaskIndex> tasks) {
  std::ranges::sort(tasks);
  std::vector<TaskRange> ranges;
  for (const TaskIndex index : tasks)
    if (!ranges.empty() && index <= ranges.back().second + 1) ranges.back().second = index;
    else ranges.emplace_back(index, index);
  return ranges;
}

std::string name_of(JobId job, const TaskRange& range) {
  const auto& [first, last] = range;
  return first == last ? fmt::format("{}.{}", job, first) : fmt::format("{}.{}-{}", job, first, last);
}

}  // namespace thole::model
