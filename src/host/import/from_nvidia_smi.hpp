// A machine file's machine from what `nvidia-smi -q -x` prints. Pure. The only file that reads XML other than hwloc's.
#pragma once

#include <string>

#include "model/machine.hpp"

namespace thole::host {

// GPUs with their identity, memory, MIG instances and present use. The report says nothing of CPUs, NICs and links. Any element
// may be missing or "N/A": elements were added, moved and renamed over the years. Throws Error(usage) about `what`.
model::Machine machine_of_nvidia_smi(const std::string& xml, const std::string& what);

}  // namespace thole::host
