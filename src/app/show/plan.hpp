// Answers one line of `thole plan --batch`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/json.hpp"
#include "model/machine.hpp"

namespace thole::app {

// Where the machines come from. Both throw Error.
struct PlanMachines {
  std::function<const model::Snapshot&(const std::string& name)> named;  // "" is this one; good until the next call
  std::function<void(model::Machine&)> complete;                         // adds the topology that one given as an object names
};

// Never throws Error: what is wrong with a line is its answer.
model::Json answer_line(std::string_view line, const PlanMachines& machines);

}  // namespace thole::app
