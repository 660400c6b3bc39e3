// Many tasks of a job, told as ranges of consecutive ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/job.hpp"

namespace thole::model {

using TaskRange = std::pair<TaskIndex, TaskIndex>;   // from, to; both belong to it

// Ascending, none next to another; in any order, also several times.
std::vector<TaskRange> ranges_of(std::vector<TaskIndex> tasks);

std::string name_of(JobId job, const TaskRange& range);   // as commands understand it: "12.3", "12.1-4"

}  // namespace thole::model
