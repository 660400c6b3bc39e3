// One line of `thole plan --batch` and its answer, as values and as JSON. docs/plan.md describes both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/json.hpp"
#include "model/machine.hpp"
#include "model/request.hpp"

namespace thole::model {

struct PlanRequest {
  std::string machine;                         // path, name or shorthand; "" when it was given as an object, or not at all
  std::optional<Machine> own;                  // given as an object
  std::optional<CpuSet> allowed;               // the inherited mask; absent = all that is online
  std::vector<std::size_t> busy;               // GPUs that others have
  std::optional<std::size_t> gpus;             // absent: all of `on`, else one for each rank
  std::optional<std::size_t> ranks;            // absent: one command with all the GPUs; in compat one rank a GPU
  std::optional<std::vector<std::size_t>> on;  // only these; in compat rank r drives the r-th
  std::vector<std::size_t> order;              // these first, in this order
  Shape shape = Shape::collective;
  BindOptions bind;
};

struct PlanAnswer {
  std::vector<std::size_t> gpus;
  long score = 0;
  bool exact = true;
  std::vector<RankPlan> ranks;
  std::string explain;
};

struct PlanRefusal {
  std::string code;                            // "unsatisfiable", or the name of an ErrorCode
  std::string message;
  std::optional<std::size_t> rank;
};

// Strict: an unknown field is a mistake, answered with the nearest known one. Only of an object that is a machine less is asked
// than of a machine file: for a plan it needs neither schema nor the GPUs' vendors and names. Throws Error(usage).
PlanRequest plan_request_from_json(const Json& json);

Json to_json(const PlanAnswer& answer);
Json to_json(const PlanRefusal& refusal);

}  // namespace thole::model
