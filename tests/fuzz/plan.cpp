// Lines of `thole plan --batch`: any text is a request or an Error; any request has an answer that keeps to the mask.
#include "base/error.hpp"
#include "fuzz.hpp"
#include "model/json_plan.hpp"
#include "plan/bind/batch.hpp"

using namespace thole;

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  model::PlanRequest request;
  try {
    request = model::plan_request_from_json(model::parse_json(std::string(reinterpret_cast<const char*>(data), size), "input"));
  } catch (const Error& error) {
    fuzz::check(error.code() == ErrorCode::usage, "what is no request is a usage error");
    return 0;
  }
  model::Snapshot snapshot;
  if (request.own) snapshot.machine = *request.own;
  constexpr std::size_t enough = 40;           // as large as it may be, but not in every one of many thousand runs
  if (snapshot.machine.gpus.size() > enough || request.ranks.value_or(0) > enough) return 0;
  const auto answer = plan::answer(snapshot, request);
  if (const auto* refusal = std::get_if<model::PlanRefusal>(&answer)) {
    fuzz::check(!refusal->message.empty() && model::dump(model::to_json(*refusal)) != "", "a refusal says why");
    return 0;
  }
  const auto& plan = std::get<model::PlanAnswer>(answer);
  fuzz::check(model::dump(model::to_json(plan)) != "", "an answer can be written");
  fuzz::check(plan.ranks.size() == request.ranks.value_or(plan.ranks.size()), "every rank has its plan");
  for (const model::RankPlan& rank : plan.ranks) {
    fuzz::check(!rank.why.empty(), "every plan has its reason");
    if (request.allowed) fuzz::check((rank.cpus - *request.allowed).empty(), "no CPU beyond the mask");
  }
  return 0;
}
