#include "plan/bind/batch.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "plan/bind/bind.hpp"
#include "plan/place/links.hpp"
#include "plan/place/place.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

using model::BindMode;
using model::PlanAnswer;
using model::PlanRefusal;
using model::PlanRequest;
using model::Snapshot;
using model::Unit;

namespace {

using Gpus = std::vector<std::size_t>;

PlanRefusal unsatisfiable(std::string message, std::optional<std::size_t> rank = std::nullopt) {
  return {"unsatisfiable", std::move(message), rank};
}

std::optional<PlanRefusal> unknown_gpu(const char* field, const Gpus& gpus, std::size_t looked_at, std::size_t n) {
  for (std::size_t i = 0; i < std::min(gpus.size(), looked_at); ++i)
    if (gpus[i] >= n) return unsatisfiable(fmt::format("{}: there is no GPU {}; this machine has {}", field, gpus[i], n));
  return std::nullopt;
}

bool contains(const Gpus& gpus, std::size_t gpu) { return std::find(gpus.begin(), gpus.end(), gpu) != gpus.end(); }

// The free GPUs, those that the request cannot use among them.
std::vector<Candidate> candidates(const Snapshot& snapshot, const std::vector<Unit>& units, const PlanRequest& request) {
  const Outer outer = outer_allotment(snapshot, units, {});
  std::vector<Candidate> free;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const model::Gpu& gpu = units[u].gpu_of(snapshot.machine);
    if (units[u].instance || gpu.health != model::Health::ok || contains(request.busy, units[u].gpu)) continue;
    const bool named = !request.on || contains(*request.on, units[u].gpu);
    free.push_back({u, gpu.display.known() && *gpu.display, named && outer.visible[u], contains(request.must, units[u].gpu)});
  }
  return free;
}

std::size_t count_of(const PlanRequest& request) {
  if (request.gpus) return *request.gpus;
  if (!request.on) return request.ranks.value_or(1);
  Gpus once = *request.on;
  std::sort(once.begin(), once.end());
  return static_cast<std::size_t>(std::unique(once.begin(), once.end()) - once.begin());
}

std::optional<PlanRefusal> missing_must(const PlanRequest& request, std::size_t wanted, const std::vector<Unit>& units,
                                        const std::vector<Candidate>& free) {
  const std::set<std::size_t> once(request.must.begin(), request.must.end());
  for (const std::size_t gpu : once)
    if (std::none_of(free.begin(), free.end(), [&](const Candidate& c) { return c.eligible && units[c.unit].gpu == gpu; }))
      return unsatisfiable(
          fmt::format("must: GPU {} cannot be had: it is busy, partitioned, not healthy, or not among those allowed", gpu));
  if (once.size() > wanted) return unsatisfiable(fmt::format("must: {} GPUs named, and {} asked for", once.size(), wanted));
  return std::nullopt;
}

// Places by the request's shape, or takes what it names.
std::optional<PlanRefusal> place_into(PlanAnswer& answer, const Snapshot& snapshot, const PlanRequest& request) {
  const std::vector<Unit> units = model::units(snapshot.machine);
  const std::vector<Candidate> free = candidates(snapshot, units, request);
  model::Request wanted;
  wanted.gpus = static_cast<unsigned>(count_of(request));
  wanted.shape = request.shape;
  for (const std::size_t gpu : request.order) wanted.order.push_back(std::to_string(gpu));
  if (request.on)
    for (const std::size_t gpu : *request.on) wanted.on.push_back(std::to_string(gpu));
  if (auto refusal = missing_must(request, wanted.gpus, units, free)) return refusal;
  const auto placement = place(wanted, snapshot, units, free);
  if (!placement) {
    const auto can = std::count_if(free.begin(), free.end(), [](const Candidate& candidate) { return candidate.eligible; });
    return unsatisfiable(fmt::format("{} GPUs asked for; {} of {} can be had", wanted.gpus, can, snapshot.machine.gpus.size()));
  }
  std::vector<std::size_t> chosen = placement->units;     // numbered as the job will number them: rank r has the r-th
  const std::vector<std::size_t> preferred = preferences(wanted, snapshot, units);
  std::ranges::stable_sort(chosen, {}, [&](std::size_t unit) { return preferred[unit]; });
  for (const std::size_t unit : chosen) answer.gpus.push_back(units[unit].gpu);
  answer.score = placement->score;
  answer.exact = placement->exact;
  answer.explain = wanted.gpus == 0 ? "no GPU asked for" : placement->explain;
  return std::nullopt;
}

// compat: the first `ranks` of the GPUs named, of those placed, or of all.
std::optional<PlanRefusal> name_into(PlanAnswer& answer, const Snapshot& snapshot, const PlanRequest& request) {
  if (request.on) answer.gpus = *request.on;
  else
    for (std::size_t gpu = 0; gpu < snapshot.machine.gpus.size(); ++gpu) answer.gpus.push_back(gpu);
  const std::size_t ranks = request.ranks.value_or(answer.gpus.size());
  if (ranks > answer.gpus.size()) return unsatisfiable(fmt::format("{} ranks for {} GPUs", ranks, answer.gpus.size()));
  answer.gpus.resize(ranks);
  if (auto wrong = unknown_gpu("on", answer.gpus, ranks, snapshot.machine.gpus.size())) return wrong;
  answer.explain = "as named";
  return std::nullopt;
}

}  // namespace

std::variant<PlanAnswer, PlanRefusal> answer(const Snapshot& snapshot, const PlanRequest& request) {
  constexpr std::size_t most_gpus = 4096;        // every pair of them is looked at
  const model::Machine& machine = snapshot.machine;
  if (machine.gpus.size() > most_gpus) return unsatisfiable(fmt::format("a machine of more than {} GPUs", most_gpus));
  const bool named = request.bind.mode == BindMode::compat && !request.gpus;
  if (auto wrong = unknown_gpu("busy", request.busy, request.busy.size(), machine.gpus.size())) return *wrong;
  if (auto wrong = unknown_gpu("must", request.must, request.must.size(), machine.gpus.size())) return *wrong;
  if (auto wrong = unknown_gpu("order", request.order, request.order.size(), machine.gpus.size())) return *wrong;
  if (request.on && !named)
    if (auto wrong = unknown_gpu("on", *request.on, request.on->size(), machine.gpus.size())) return *wrong;
  if (request.ranks == std::size_t{0}) return unsatisfiable("ranks: 0 asked for; at least 1 is needed");

  PlanAnswer answer;
  if (auto refusal = named ? name_into(answer, snapshot, request) : place_into(answer, snapshot, request)) return *refusal;
  const std::size_t ranks = request.ranks.value_or(request.bind.mode == BindMode::compat ? answer.gpus.size() : 1);
  if (request.bind.mode == BindMode::compat && ranks > answer.gpus.size())
    return unsatisfiable(fmt::format("{} ranks for {} GPUs", ranks, answer.gpus.size()));
  model::BindRequest wanted{request.bind, request.allowed, deal_ranks(answer.gpus, ranks)};
  if (machine.outer.allowed_cpus)
    wanted.allowed = wanted.allowed ? *wanted.allowed & *machine.outer.allowed_cpus : *machine.outer.allowed_cpus;
  auto bound = bind(machine, wanted);
  if (auto* refusal = std::get_if<model::BindRefusal>(&bound)) return unsatisfiable(std::move(refusal->message), refusal->rank);
  answer.ranks = std::move(std::get<model::BindingPlan>(bound).ranks);
  return answer;
}

}  // namespace thole::plan
