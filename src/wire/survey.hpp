// What `doctor` needs beyond an overview.
#pragma once

#include <string>

#include "model/surroundings.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

model::Surroundings survey(const Settings& settings, const std::string& state_dir);

}  // namespace thole::wire
