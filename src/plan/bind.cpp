#include "plan/bind.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind_cores.hpp"
#include "plan/bind_near.hpp"
#include "plan/compat.hpp"

namespace thole::plan {

using model::BindingPlan;
using model::BindMode;
using model::BindRefusal;
using model::RankPlan;

namespace {

void unite(CoreList& cores, const CoreList& more) {
  cores.insert(cores.end(), more.begin(), more.end());
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
}

std::variant<BindingPlan, BindRefusal> like_gpu_affinity(const model::Machine& machine, const model::BindRequest& request) {
  std::vector<std::size_t> gpus;
  for (const auto& mine : request.ranks) {
    if (mine.size() != 1) return BindRefusal{"bind mode compat knows ranks of one GPU only", gpus.size()};
    gpus.push_back(mine.front());
  }
  auto sets = compat(machine, request.allowed, gpus, request.options.compat, request.options.smt);
  if (auto* refusal = std::get_if<BindRefusal>(&sets)) return *refusal;
  BindingPlan plan;
  plan.mode = BindMode::compat;
  for (model::CpuSet& cpus : std::get<0>(sets)) {
    RankPlan& rank = plan.ranks.emplace_back();
    rank.rank = plan.ranks.size() - 1;
    rank.gpus = rank.visible = request.ranks[rank.rank];
    rank.bound = true;
    rank.cpus = std::move(cpus);
    rank.why = fmt::format("as gpu_affinity's {}, scope {}", to_string(request.options.compat.affinity),
                           to_string(request.options.compat.scope));
  }
  return plan;
}

}  // namespace

std::variant<BindingPlan, BindRefusal> bind(const model::Machine& machine, const model::BindRequest& request) {
  BindingPlan plan;
  plan.mode = request.options.mode;
  if (plan.mode == BindMode::compat) return like_gpu_affinity(machine, request);
  if (plan.mode != BindMode::none && plan.mode != BindMode::node && plan.mode != BindMode::package)
    return BindRefusal{"--bind " + bind_name(request.options) + " is not built yet", std::nullopt};
  const Cores cores(machine, request.allowed, request.options.reserve);
  for (const auto& gpus : request.ranks) {
    RankPlan rank;
    rank.rank = plan.ranks.size();
    rank.gpus = rank.visible = gpus;
    if (plan.mode == BindMode::none) rank.why = "not bound: bind mode none";
    else if (gpus.empty()) rank.why = "not bound: no GPU";
    else {
      CoreList mine;
      for (const std::size_t gpu : gpus) {
        const Territory near = territory(machine, gpu, plan.mode == BindMode::node ? Reach::node : Reach::package, cores);
        unite(mine, near.cores);
        if (!near.lack.empty()) rank.degraded = true, rank.why = near.lack + ": ";
      }
      rank.bound = !mine.empty();
      rank.cpus = cores.cpus_of(mine, request.options.smt);
      rank.cores = mine.size();
      rank.why += cores.place_of(mine);
    }
    plan.ranks.push_back(std::move(rank));
  }
  return plan;
}

}  // namespace thole::plan
