// Every real machine of tests/topologies in a few lines, as its importer understands it.
#include <gtest/gtest.h>

#include <set>

#include "support/golden.hpp"
#include "support/real_machines.hpp"

namespace thole {
namespace {

std::string distinct(const std::vector<model::Cpu>& cpus, std::optional<int> model::Cpu::*member) {
  std::set<int> values;
  bool unknown = false;
  for (const model::Cpu& cpu : cpus) {
    if (cpu.*member) values.insert(*(cpu.*member));
    else unknown = true;
  }
  return values.empty() ? "?" : std::to_string(values.size()) + (unknown ? "?" : "");
}

template <class T>
std::string known(const std::optional<T>& value) { return value ? fmt::format("{}", *value) : "?"; }
std::string known(const std::optional<model::CpuSet>& set) { return set ? set->to_string() : "?"; }

// "3 node, 1 nvlink2, 4 sys": how many of each kind there are.
std::string links(const std::vector<model::Link>& all) {
  std::map<std::string, int> counts;
  for (const model::Link& link : all)
    ++counts[model::to_string(link.kind) + (link.count ? std::to_string(*link.count) : std::string())];
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts) parts.push_back(fmt::format("{} {}", count, kind));
  return parts.empty() ? "no links" : join(parts, ", ");
}

std::string show(const model::Machine& machine) {
  std::string text = fmt::format("{}: {} PUs, {} cores, {} L3, {} packages\n", machine.name, machine.cpus.size(),
                                 distinct(machine.cpus, &model::Cpu::core), distinct(machine.cpus, &model::Cpu::l3),
                                 distinct(machine.cpus, &model::Cpu::package));
  for (const model::NumaNode& node : machine.numa) {
    model::CpuSet cpus;
    for (const model::Cpu& cpu : machine.cpus)
      if (cpu.numa == node.id) cpus.add(cpu.id);
    text +=
        fmt::format("  node {}: {} MiB, CPUs {}\n", node.id, known(node.memory_mib), cpus.empty() ? "none" : cpus.to_string());
  }
  for (const model::Gpu& gpu : machine.gpus)
    text += fmt::format("  {} {}{} \"{}\" {} MiB, node {}, near {} / {}; {}\n", model::to_string(gpu.vendor),
                        gpu.pci->to_string(), gpu.part ? fmt::format(".{}", *gpu.part) : "", gpu.model, known(gpu.memory_mib),
                        known(gpu.numa), known(gpu.near_cpus.node), known(gpu.near_cpus.package), links(gpu.links));
  for (const model::Nic& nic : machine.nics)
    text += fmt::format("  {} {}, node {}, {} Gb/s; {}\n", nic.name, nic.pci ? nic.pci->to_string() : "?", known(nic.numa),
                        known(nic.rate_gbps), links(nic.links));
  return text;
}

TEST(ImportedMachines, AreUnderstoodAsRecorded) {
  std::string now;
  for (const auto& [name, machine] : test::real_machines()) now += show(machine);
  test::expect_as_recorded("imported.txt", now);
}

}  // namespace
}  // namespace thole
