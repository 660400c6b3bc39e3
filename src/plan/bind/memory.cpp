#include "plan/bind/memory.hpp"

#include <set>

#include "plan/bind/near.hpp"

namespace thole::plan {

using model::CpuSet;
using model::Machine;
using model::MemoryPolicy;

namespace {

bool has_memory(const Machine& machine, int node) {
  for (const model::NumaNode& known : machine.numa)
    if (known.id == node) return known.memory_mib != std::uint64_t{0};
  return machine.numa.empty();                 // a node that is not listed has none, unless nothing is listed
}

std::set<int> nodes_of(const Machine& machine, const CpuSet& cpus, bool whole_packages) {
  std::set<int> packages, nodes;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.package && cpus.contains(cpu.id)) packages.insert(*cpu.package);
  for (const model::Cpu& cpu : machine.cpus) {
    const bool mine = cpus.contains(cpu.id) || (whole_packages && cpu.package && packages.contains(*cpu.package));
    if (mine && cpu.numa && has_memory(machine, *cpu.numa)) nodes.insert(*cpu.numa);
  }
  return nodes;
}

}  // namespace

void choose_memory(const Machine& machine, const model::BindOptions& options, model::RankPlan& rank) {
  if (options.memory == MemoryPolicy::first_touch) return;
  rank.memory = options.memory;
  if (options.memory_nodes) {
    rank.memory_nodes = *options.memory_nodes;
    return;
  }
  CpuSet cpus = rank.cpus;
  if (!rank.bound)
    for (const std::size_t gpu : rank.gpus) cpus = cpus | near_node(machine, machine.gpus[gpu]).value_or(CpuSet());
  const std::set<int> nodes = nodes_of(machine, cpus, options.memory == MemoryPolicy::interleave);
  rank.memory_nodes.assign(nodes.begin(), nodes.end());
  if (!rank.memory_nodes.empty() || rank.gpus.empty()) return;
  rank.degraded = true;
  rank.memory = MemoryPolicy::first_touch;
  rank.why += "; memory by first touch: no memory node is known for it";
}

}  // namespace thole::plan
