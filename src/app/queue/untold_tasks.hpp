// Tasks of which it cannot be told whether they have begun under this boot of the machine (model::lane_of_untold), and count as
// running; and how a command names many tasks at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/job.hpp"
#include "port/job_reader.hpp"

namespace thole::app {

// Of the job's tasks from the first to the last of these.
std::vector<model::TaskIndex> untold_tasks(port::JobReader& jobs, const model::Job& job,
                                           std::pair<model::TaskIndex, model::TaskIndex> range);

// "9 of its tasks may have begun elsewhere"
std::string untold_text(std::uint64_t count);

// "1.3-11,1.15"
std::string names_of(model::JobId job, std::vector<model::TaskIndex> tasks);

}  // namespace thole::app
