#include "app/show/plan.hpp"

#include "base/error.hpp"
#include "model/json_plan.hpp"
#include "plan/bind/batch.hpp"

namespace thole::app {

model::Json answer_line(std::string_view line, const PlanMachines& machines) {
  // The boundary of one line, as a queue has one for each job.
  try {
    model::PlanRequest request = model::plan_request_from_json(model::parse_json(std::string(line), ""));
    model::Snapshot own;
    if (request.own) {
      own.machine = *std::move(request.own);
      machines.complete(own.machine);
    }
    const model::Snapshot& machine = request.own ? own : machines.named(request.machine);
    return std::visit([](const auto& value) { return model::to_json(value); }, plan::answer(machine, request));
  } catch (const Error& error) {
    return model::to_json(model::PlanRefusal{name(error.code()), error.full(), std::nullopt});
  }
}

}  // namespace thole::app
