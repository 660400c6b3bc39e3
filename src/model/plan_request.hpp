// One question of `thole plan --batch` and its answer. json_plan.hpp reads and writes them; docs/plan.md describes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/binding.hpp"
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
  std::vector<std::size_t> must;               // these have to be among them
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

}  // namespace thole::model
