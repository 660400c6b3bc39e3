// The files that the tasks of a job find by name.
#pragma once

#include <string>
#include <vector>

#include "model/job.hpp"

namespace thole::app {

// Where its program is looked for, one after the other.
std::vector<std::string> program_paths(const model::JobSpec& spec);

}  // namespace thole::app
