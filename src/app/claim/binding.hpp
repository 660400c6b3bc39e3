// Binding a job's processes: the plan for all its ranks, made once, after the claim; and what of it goes to each process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/claim/acquire.hpp"
#include "model/binding.hpp"
#include "plan/bind/effect.hpp"
#include "port/binder.hpp"
#include "port/processes.hpp"

namespace thole::app {

// A host whose processes are bound, and whether the machine that is observed is that host.
struct BindSite {
  port::Binder& binder;
  bool same_machine = true;                      // false: a simulated or captured one
};

struct Binding {
  model::BindOptions options;
  model::BindingPlan plan;
  std::vector<plan::Effect> effects;             // parallel to plan.ranks
  std::string topology_problem;                  // why the machine's CPUs are not known; "" when they are

  // Worth telling although nobody asked: what a rank does not get of what was wanted.
  std::vector<std::string> troubles_of(std::size_t rank) const;
};

// The GPUs of these units, each once: several MIG instances are of one.
std::vector<std::size_t> gpus_of(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen);

// Plans for ranks with these GPUs each, by the last look at the machine. Throws Error(usage) where the request has no answer,
// and Error(unavailable) under strict where a rank would get less than was wanted.
Binding plan_binding(Observer& observer, const BindSite& site, const plan::Environment& environment,
                     const model::BindOptions& options, std::vector<std::vector<std::size_t>> ranks);

// Throws what binding_for() would, whichever GPUs are claimed: to be told before waiting for them.
void check_binding(const model::Machine& machine, const model::BindOptions& options, const model::Request& request);

// The plan for processes that share the GPUs of a claim; nothing where it has none, or where nothing is to be bound or set.
std::optional<Binding> binding_for(Site& site, const BindSite& host, const model::BindOptions& options,
                                   const Acquired& acquired, unsigned processes);

// What a process gets with a claim, on top of its caller's environment: the variables, those to `carry` on, and the locks.
port::ProcessSpec spec_with(const Acquired& acquired, const plan::Variables& variables,
                            const std::map<std::string, std::string>& carry);

// What the kernel gave a rank, and how it differs from what was asked for: sentences, none when it does not.
struct ReadBack {
  model::Binding got;
  std::vector<std::string> differences;
};
using OnReadBack = std::function<void(const ReadBack&)>;

// Puts what a rank gets into its process. `told` hears what came of it; under strict a difference is an Error(unavailable) of
// the start instead.
void put_into(port::ProcessSpec& spec, const Binding& binding, std::size_t rank, OnReadBack told);

}  // namespace thole::app
