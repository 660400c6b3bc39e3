// The network adapters of each rank.
#pragma once

#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

// Fills `nics` of the ranks and of the plan. near: for each GPU of a rank the NIC that is nearest by PCIe class, then on the
// same NUMA node, then fastest; among equals the least assigned, then by name. A NIC under a quarter of the best one's rate
// is for management and is not taken.
void choose_nics(const model::Machine& machine, model::NicMode mode, model::BindingPlan& plan);

}  // namespace thole::plan
