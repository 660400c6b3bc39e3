// Machines in one word: "8xA100", "4xRTX4090", "8xA100-40", "8xMI250X". Plausible, idle, and the same at every call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine.hpp"

namespace thole::host {

// The machine that the word describes; nothing when it has not the form COUNTxMODEL. A count out of range or an unknown
// model throws Error(usage) with the nearest names. For parts with several devices a package (MI250X), COUNT is the number of
// devices that a program sees.
std::optional<model::Machine> shorthand_machine(std::string_view word);

// The models it knows: "A100", "A100-40", "H100", …
std::vector<std::string> shorthand_models();

}  // namespace thole::host
