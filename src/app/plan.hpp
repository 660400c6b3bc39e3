// Answers one line of `thole plan --batch`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/json.hpp"
#include "model/machine.hpp"

namespace thole::app {

// The machine of a name, "" being this one. The reference is good until the next call. Throws Error when there is none.
using MachineNamed = std::function<const model::Snapshot&(const std::string& name)>;

// Never throws Error: what is wrong with a line is its answer.
model::Json answer_line(std::string_view line, const MachineNamed& machine_named);

}  // namespace thole::app
