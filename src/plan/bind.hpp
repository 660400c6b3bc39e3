// The CPUs, memory nodes, NICs and thread counts of all ranks of a job: one pure decision from the machine and what is asked.
//
// The same machine and request give the same plan, in whatever order the machine lists its CPUs. A plan never leaves
// `allowed` nor the online CPUs, and never gives a rank part of a core's threads except with smt one. Unknown attributes make a
// plan wider or a rank unbound, with the reason in `why`; they are no failure.
#pragma once

#include <variant>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

std::variant<model::BindingPlan, model::BindRefusal> bind(const model::Machine& machine, const model::BindRequest& request);

}  // namespace thole::plan
