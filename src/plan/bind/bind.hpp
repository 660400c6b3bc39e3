// The CPUs, memory nodes, NICs and thread counts of all ranks of a job: one pure decision from the machine and what is asked.
//
// The same machine and request give the same plan, in whatever order the machine lists its CPUs. A plan never leaves
// `allowed` nor the online CPUs, and never gives a rank part of a core's threads except with smt one. Unknown attributes make a
// plan wider or a rank unbound, with the reason in `why`; they are no failure.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

std::variant<model::BindingPlan, model::BindRefusal> bind(const model::Machine& machine, const model::BindRequest& request);

// What no choice of GPUs can mend in a binding asked for ranks with so many GPUs each: refused before anybody waits.
std::optional<model::BindRefusal> never_bound(const model::Machine& machine, const model::BindOptions& options,
                                              std::size_t gpus_per_rank);

// Which GPUs each of `ranks` ranks drives: runs of equal length, lower ranks the longer ones; with more ranks than GPUs lower
// GPUs get the more ranks. No GPUs: ranks without any.
std::vector<std::vector<std::size_t>> deal_ranks(const std::vector<std::size_t>& gpus, std::size_t ranks);

}  // namespace thole::plan
