#include "app/claim/binding.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/bind/bind.hpp"

namespace thole::app {

namespace {

std::string why_no_policy(int refused) {
  if (refused == 0) return "";
  if (refused == EPERM) return "not permitted here; in a container it takes --cap-add SYS_NICE";
  if (refused == ENOSYS) return "this kernel has none";
  return std::strerror(refused);
}

plan::HostLimits host_limits(const BindSite& site, const model::BindOptions& options) {
  plan::HostLimits host;
  host.cpus = site.binder.allowed_cpus();
  host.simulated = !site.same_machine;
  if (options.memory == model::MemoryPolicy::first_touch) return host;
  port::MemoryAccess memory = site.binder.memory();
  host.memory_nodes = std::move(memory.nodes);
  host.no_memory_policy = why_no_policy(memory.refused);
  return host;
}

[[noreturn]] void refuse_binding(const model::BindRefusal& refusal, const model::BindOptions& options) {
  Error error(options.strict ? ErrorCode::unavailable : ErrorCode::usage, refusal.message);
  if (options.strict) throw std::move(error).hint("without --strict the command gets what there is");
  throw error;
}

bool asks_for_anything(const model::BindOptions& options) {
  return options.mode != model::BindMode::none || options.memory != model::MemoryPolicy::first_touch ||
         options.nic != model::NicMode::none || options.threads.mode != model::Threads::Mode::keep;
}

}  // namespace

std::vector<std::string> Binding::troubles_of(std::size_t rank) const {
  std::vector<std::string> all;
  if (plan.ranks[rank].degraded) {
    all.push_back(plan.ranks[rank].why);
    if (!topology_problem.empty()) all.push_back(topology_problem);
  }
  all.insert(all.end(), effects[rank].lacks.begin(), effects[rank].lacks.end());
  return all;
}

std::vector<std::size_t> gpus_of(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen) {
  std::vector<std::size_t> gpus;
  for (std::size_t unit : chosen)
    if (std::find(gpus.begin(), gpus.end(), units[unit].gpu) == gpus.end()) gpus.push_back(units[unit].gpu);
  return gpus;
}

void check_binding(const model::Machine& machine, const model::BindOptions& options, const model::Request& request) {
  if (request.gpus == 0 || !asks_for_anything(options)) return;
  if (const auto refusal = plan::never_bound(machine, options, request.gpus)) refuse_binding(*refusal, options);
}

std::optional<Binding> binding_for(Site& site, const BindSite& host, const model::BindOptions& options,
                                   const Acquired& acquired, unsigned processes) {
  if (acquired.chosen.empty() || !asks_for_anything(options)) return std::nullopt;
  return plan_binding(site.observer, host, site.environment, options,
                      std::vector(processes, gpus_of(acquired.units, acquired.chosen)));
}

port::ProcessSpec spec_with(const Acquired& acquired, const plan::Variables& variables,
                            const std::map<std::string, std::string>& carry) {
  port::ProcessSpec spec;
  spec.set = variables.set;
  spec.unset = variables.unset;
  for (const auto& [name, value] : carry) spec.set[name] = value;
  spec.keep = acquired.claim.all_descriptors();
  return spec;
}

Binding plan_binding(Observer& observer, const BindSite& site, const plan::Environment& environment,
                     const model::BindOptions& options, std::vector<std::vector<std::size_t>> ranks) {
  const model::Machine& machine = observer.snapshot().machine;
  const plan::HostLimits host = host_limits(site, options);
  model::BindRequest request;
  request.options = options;
  request.allowed = site.same_machine ? std::optional(host.cpus) : machine.outer.allowed_cpus;
  request.ranks = std::move(ranks);
  auto answer = plan::bind(machine, request);
  if (const auto* refusal = std::get_if<model::BindRefusal>(&answer)) refuse_binding(*refusal, options);

  Binding binding{options, std::get<model::BindingPlan>(std::move(answer)), {}, observer.topology_problem()};
  for (const model::RankPlan& rank : binding.plan.ranks)
    binding.effects.push_back(plan::effect(rank, binding.plan, host, environment));
  for (std::size_t i = 0; options.strict && i < binding.effects.size(); ++i)
    if (const auto troubles = binding.troubles_of(i); !troubles.empty())
      refuse_binding({(binding.effects.size() > 1 ? fmt::format("rank {}: ", i) : "") + join(troubles, "; "), i}, options);
  return binding;
}

void put_into(port::ProcessSpec& spec, const Binding& binding, std::size_t rank, OnReadBack told) {
  const plan::Effect& effect = binding.effects[rank];
  spec.binding = effect.binding;
  spec.strict = binding.options.strict;
  for (const auto& [name, value] : effect.set) spec.set[name] = value;
  spec.bound = [asked = effect.binding, told = std::move(told)](const model::Bound& bound) {
    if (told) told({bound.got, plan::differences(asked, bound)});
  };
}

}  // namespace thole::app
