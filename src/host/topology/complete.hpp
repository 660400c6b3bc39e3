// What a machine file lacks, from the topology that it names by `hwloc_xml`.
#pragma once

#include "model/machine.hpp"

namespace thole::host {

// Taken are CPUs and memory nodes wholly; NICs and GPUs where the file lists none; and of the GPUs listed, found by PCI
// address, whatever is not known.
void complete(model::Machine& machine, const model::Machine& topology);

}  // namespace thole::host
