// The online CPUs and memory nodes as sysfs shows them.
#pragma once

#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

// Online PUs, ascending. `core`, `l3` and `package` are renumbered from 0 in the order of their lowest PU, so they are unique
// in the machine whatever the firmware calls them (core_id repeats in each package; a GB10's package is number 36).
std::vector<model::Cpu> read_cpus(const Tree& tree);

// Online memory nodes with their size, ascending. Nodes without CPUs are listed (high-bandwidth or attached memory) unless
// they are a GPU's own memory (POWER9, Grace): those belong to the GPU, and binding to them would steal from its job.
std::vector<model::NumaNode> read_numa(const Tree& tree);

}  // namespace thole::host
