// What `doctor` needs beyond an overview.
#pragma once

#include <string>

#include "app/doctor.hpp"
#include "model/surroundings.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

class Wire;

model::Surroundings survey(const Settings& settings, const std::string& state_dir);

// Where this caller's things lie, or would.
app::Directories directories(Wire& wire);

}  // namespace thole::wire
