// The memory nodes that a rank's policy names.
#pragma once

#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

// Fills memory and memory_nodes. preferred and bind name the nodes of the rank's CPUs, interleave those of its packages; a node
// without CPUs (a GPU's own memory, slow attached memory) only if the user names it. A rank that is not bound goes by its GPUs.
void choose_memory(const model::Machine& machine, const model::BindOptions& options, model::RankPlan& rank);

}  // namespace thole::plan
