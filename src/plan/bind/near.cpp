#include "plan/bind/near.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::plan {

using model::CpuSet;
using model::Gpu;
using model::Machine;

namespace {

// Whether the CPUs all agree on a number, so that "near" needs no telling.
// Unknown numbers agree with anything but two known ones.
template <class Number>
bool only_one(const Machine& machine, Number number) {
  std::optional<int> seen;
  for (const model::Cpu& cpu : machine.cpus) {
    if (!number(cpu)) continue;
    if (seen && *seen != *number(cpu)) return false;
    seen = number(cpu);
  }
  return true;
}

CpuSet all_cpus(const Machine& machine) {
  CpuSet cpus;
  for (const model::Cpu& cpu : machine.cpus) cpus.add(cpu.id);
  return cpus;
}

}  // namespace

std::optional<CpuSet> near_node(const Machine& machine, const Gpu& gpu) {
  if (gpu.near_cpus.node) return gpu.near_cpus.node;
  if (gpu.numa) {
    CpuSet cpus;
    for (const model::Cpu& cpu : machine.cpus)
      if (cpu.numa == gpu.numa) cpus.add(cpu.id);
    if (!cpus.empty()) return cpus;            // a node without CPUs (a GPU's own memory) says nothing about nearness
  }
  if (gpu.near_cpus.package) return std::nullopt;
  if (only_one(machine, [](const model::Cpu& cpu) { return cpu.numa; }) &&
      only_one(machine, [](const model::Cpu& cpu) { return cpu.package; }) && !machine.cpus.empty())
    return all_cpus(machine);
  return std::nullopt;
}

std::optional<CpuSet> near_package(const Machine& machine, const Gpu& gpu) {
  if (gpu.near_cpus.package) return gpu.near_cpus.package;
  const auto node = near_node(machine, gpu);
  if (!node || node->empty()) return std::nullopt;
  std::vector<int> packages;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.package && node->contains(cpu.id)) packages.push_back(*cpu.package);
  CpuSet cpus = *node;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.package && std::find(packages.begin(), packages.end(), *cpu.package) != packages.end()) cpus.add(cpu.id);
  return cpus;
}

Territory territory(const Machine& machine, std::size_t gpu, Reach asked, const Cores& cores) {
  Territory found;
  for (const Reach reach : {Reach::node, Reach::package}) {
    if (reach < asked) continue;
    const auto near = reach == Reach::node ? near_node(machine, machine.gpus[gpu]) : near_package(machine, machine.gpus[gpu]);
    found.cores = near ? cores.in(*near) : CoreList();
    found.reach = reach;
    // A platform that names the package and no node has named what it knows to be near.
    if (!found.cores.empty()) return found;
    const bool package_is_next = reach == Reach::node && !near && machine.gpus[gpu].near_cpus.package;
    if (!found.lack.empty() || package_is_next) continue;
    if (!near) found.lack = fmt::format("which CPUs are near GPU {} is not known", gpu);
    else if ((*near & cores.online()).empty()) found.lack = fmt::format("no CPU near GPU {} is online", gpu);
    else found.lack = fmt::format("no CPU near GPU {} ({}) is allowed", gpu, near->to_string());
  }
  found.cores = cores.every();
  found.reach = Reach::machine;
  return found;
}

}  // namespace thole::plan
