#include "app/claim/binding_json.hpp"

#include "model/json_bind.hpp"
#include "model/json_null.hpp"

namespace thole::app {

namespace {

using model::Json;

Json rank_to_json(const model::RankPlan& rank, const plan::Effect& effect) {
  return {{"rank", rank.rank},
          {"gpus", rank.gpus},
          {"cpus", rank.bound ? Json(rank.cpus.to_string()) : Json(nullptr)},
          {"cores", rank.bound ? Json(rank.cores) : Json(nullptr)},
          {"degraded", rank.degraded},
          {"why", rank.why},
          {"memory", to_string(rank.memory)},
          {"memory_nodes", rank.memory_nodes},
          {"nics", rank.nics},
          {"threads", model::or_null(rank.threads)},
          {"asked", model::to_json(effect.binding)},
          {"set", effect.set},
          {"lacks", effect.lacks},
          {"kept", effect.kept},
          {"absent_cpus", effect.absent_cpus.to_string()},
          {"absent_nodes", effect.absent_nodes}};
}

}  // namespace

Json binding_to_json(const Binding& binding) {
  Json ranks = Json::array();
  for (std::size_t i = 0; i < binding.plan.ranks.size(); ++i)
    ranks.push_back(rank_to_json(binding.plan.ranks[i], binding.effects[i]));
  return {{"mode", bind_name(binding.options)},
          {"smt", to_string(binding.options.smt)},
          {"strict", binding.options.strict},
          {"nics", binding.plan.nics},
          {"ranks", std::move(ranks)}};
}

Json bound_to_json(const Binding& binding, std::size_t rank, const ReadBack& answer) {
  return {{"rank", rank},
          {"binding", binding_to_json(binding)},
          {"got", model::to_json(answer.got)},
          {"differences", answer.differences}};
}

Json rebound_to_json(const Rebound& rebound, pid_t pid, std::size_t rank) {
  Json masks = Json::array();
  for (const auto& [mask, threads] : rebound.process.masks) masks.push_back({{"cpus", mask.to_string()}, {"threads", threads}});
  return {{"schema", "thole/bound/1"},
          {"pid", pid},
          {"rank", rank},
          {"gpus_by", rebound.gpus_by},
          {"binding", binding_to_json(rebound.binding)},
          {"threads", rebound.process.threads},
          {"got", std::move(masks)},
          {"differences", rebound.differences}};
}

}  // namespace thole::app
