// What `doctor` needs beyond an overview.
#pragma once

#include <optional>
#include <string>

#include "app/show/doctor.hpp"
#include "model/surroundings.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

class Wire;

model::Surroundings survey(const Settings& settings, const std::string& state_dir);

// A state directory that was named and is not there, with what keeps it from being made. Nothing where there is one, or none
// was named.
std::optional<app::Directory> absent_state_dir(Wire& wire);

// Where this caller's things lie, or would.
app::Directories directories(Wire& wire);

}  // namespace thole::wire
