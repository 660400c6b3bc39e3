// One planning question, of a machine and what is wanted, and its whole answer: which GPUs, and what each rank is bound to.
#pragma once

#include <variant>

#include "model/machine.hpp"
#include "model/plan_request.hpp"

namespace thole::plan {

// The machine's present use is not looked at: the request says which GPUs are busy. A GPU that is not healthy, or is
// partitioned, is not placed on. The machine's own outer allotment narrows as everywhere.
std::variant<model::PlanAnswer, model::PlanRefusal> answer(const model::Snapshot& snapshot, const model::PlanRequest& request);

}  // namespace thole::plan
