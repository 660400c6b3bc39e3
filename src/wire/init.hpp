// `thole init`, and the names of machines: small things that fronts need from adapters.
#pragma once

#include <string>
#include <vector>

#include "wire/wire.hpp"

namespace thole::wire {

struct InitReport {
  std::string directory;
  unsigned units = 0;  // that have nodes now
  unsigned freed = 0;  // slots of vanished ones
};

// Makes or mends the state directory for the units of this machine. `group`: only its members may claim; "" = everybody.
// Throws Error(usage) for a group that does not exist, Error(unavailable) where that is not ours to do.
InitReport init(Wire& wire, const std::string& group);

// The simulated machines that are shipped.
std::vector<std::string> machine_names(const Settings& settings);

}  // namespace thole::wire
