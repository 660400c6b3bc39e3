// Machines drawn from a seed, plausible or odd: any shape, numbers missing, CPUs offline, near sets that are empty, cut,
// overlapping or beside their package, GPUs without a node.
#pragma once

#include <algorithm>

#include "support/boxes.hpp"
#include "support/dice.hpp"

namespace thole::test {

inline model::CpuSet some_of(const model::CpuSet& cpus, unsigned percent, Dice& dice) {
  model::CpuSet some;
  for (const unsigned cpu : cpus.to_vector())
    if (dice.roll(100) < percent) some.add(cpu);
  return some;
}

inline model::CpuSet online_of(const model::Machine& machine) {
  model::CpuSet cpus;
  for (const model::Cpu& cpu : machine.cpus) cpus.add(cpu.id);
  return cpus;
}

inline model::Machine random_machine(std::uint64_t seed) {
  Dice dice(seed);
  const Box dimensions{.packages = 1 + static_cast<int>(dice.roll(3)), .nodes = 1 + static_cast<int>(dice.roll(3)),
                       .cores = 1 + static_cast<int>(dice.roll(7)), .threads = dice.of<int>({1, 2, 2, 4, 8}),
                       .l3 = static_cast<int>(dice.roll(4))};
  const int nodes = dimensions.packages * dimensions.nodes;
  std::vector<std::optional<int>> gpus(dice.roll(9));
  for (auto& node : gpus)
    if (!dice.one_in(12)) node = static_cast<int>(dice.roll(static_cast<unsigned>(nodes + dice.one_in(6))));
  model::Machine machine = box(dimensions, gpus);
  if (dice.one_in(3)) {
    const model::CpuSet online = some_of(online_of(machine), 80, dice);
    std::erase_if(machine.cpus, [&](const model::Cpu& cpu) { return !online.contains(cpu.id); });
  }
  if (dice.one_in(8)) for (model::Cpu& cpu : machine.cpus) cpu.core.reset();
  if (dice.one_in(8)) for (model::Cpu& cpu : machine.cpus) cpu.l3.reset();
  if (dice.one_in(8)) for (model::Cpu& cpu : machine.cpus) cpu.numa.reset();
  if (dice.one_in(8)) for (model::Cpu& cpu : machine.cpus) cpu.package.reset();
  if (dice.one_in(20)) machine.cpus.clear();
  if (dice.one_in(10)) machine.numa.clear();
  const model::CpuSet online = online_of(machine);
  const bool odd = dice.one_in(3);
  for (model::Gpu& gpu : machine.gpus) {
    if (odd && dice.one_in(3)) gpu.near_cpus.node = some_of(online, 30, dice);
    if (odd && dice.one_in(3)) gpu.near_cpus.package = some_of(online, 60, dice);
    if (odd && dice.one_in(10)) gpu.near_cpus.node = model::CpuSet();
  }
  return machine;
}

}  // namespace thole::test
