// The lines of `thole plan --batch`: a request from JSON, an answer or a refusal to JSON.
#pragma once

#include "model/json.hpp"
#include "model/plan_request.hpp"

namespace thole::model {

// Strict: an unknown field is a mistake, answered with the nearest known one. Only of an object that is a machine less is asked
// than of a machine file: for a plan it needs neither schema nor the GPUs' vendors and names. Throws Error(usage).
PlanRequest plan_request_from_json(const Json& json);

Json to_json(const PlanAnswer& answer);
Json to_json(const PlanRefusal& refusal);

}  // namespace thole::model
