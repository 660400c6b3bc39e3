// Machines in one line, for tests: machine({"abcd", "ef"}) has the GPUs a to d on NUMA node 0 and e, f on node 1.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "model/machine.hpp"
#include "model/unit.hpp"

namespace thole::test {

// GPU number n: UUID "GPU-<letter, 8 times>-0", bus n + 1, 80 GiB, idle. Each node is a package of its own with 8 CPUs.
inline model::Gpu gpu(char letter, int node, std::size_t n) {
  model::Gpu gpu;
  gpu.uuid = fmt::format("GPU-{}-0", std::string(8, letter));
  gpu.vendor = model::Vendor::nvidia;
  gpu.model = "NVIDIA A100-SXM4-80GB";
  gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(n + 1), 0, 0};
  gpu.memory_mib = 81920;
  gpu.numa = node;
  gpu.use.memory_used_mib = std::uint64_t{0};
  gpu.use.utilization_percent = 0.0;
  gpu.use.processes = std::vector<model::GpuProcess>{};
  return gpu;
}

inline model::Snapshot machine(std::initializer_list<std::string_view> nodes) {
  model::Snapshot snapshot;
  model::Observation observation;
  observation.backend = "nvidia";
  snapshot.observations.push_back(observation);
  unsigned cpu = 0;
  int node = 0;
  for (const std::string_view letters : nodes) {
    for (unsigned c = 0; c < 8; ++c, ++cpu)
      snapshot.machine.cpus.push_back({.id = cpu, .core = static_cast<int>(cpu), .l3 = node, .numa = node, .package = node});
    snapshot.machine.numa.push_back({.id = node, .memory_mib = 65536});
    for (const char letter : letters) snapshot.machine.gpus.push_back(gpu(letter, node, snapshot.machine.gpus.size()));
    ++node;
  }
  return snapshot;
}

inline std::vector<model::Unit> units_of(const model::Snapshot& snapshot) { return model::units(snapshot.machine); }

// Joins GPUs a and b both ways.
inline void link(model::Snapshot& snapshot, std::size_t a, std::size_t b, model::LinkKind kind, std::optional<int> count = {},
                 std::optional<int> weight = {}) {
  auto& gpus = snapshot.machine.gpus;
  gpus[a].links.push_back({*gpus[b].pci, kind, count, weight});
  gpus[b].links.push_back({*gpus[a].pci, kind, count, weight});
}

// Gives GPU n instances of these profiles ("3g.40gb": 40 GiB); UUIDs "MIG-<letter of the GPU><number>-0".
inline void partition(model::Snapshot& snapshot, std::size_t n, std::initializer_list<std::string_view> profiles) {
  model::Gpu& whole = snapshot.machine.gpus[n];
  whole.mig_mode = true;
  for (const std::string_view profile : profiles) {
    model::Instance instance;
    const int number = static_cast<int>(whole.mig.size());
    instance.uuid = fmt::format("MIG-{}{}-0", whole.uuid.substr(4, 7), number);
    instance.profile = profile;
    const std::size_t dot = profile.find('.');
    instance.memory_mib = 1024 * parse_u64(profile.substr(dot + 1, profile.size() - dot - 3)).value_or(0);
    instance.instance = {number + 1, 0};
    instance.use = whole.use;
    whole.mig.push_back(instance);
  }
}

inline model::GpuProcess process(pid_t pid, std::string user, std::uint64_t mib, std::string command = "python train.py",
                                 model::GpuProcess::Kind kind = model::GpuProcess::Kind::compute) {
  model::GpuProcess process;
  process.pid = pid;
  process.user = std::move(user);
  process.command = std::move(command);
  process.kind = kind;
  process.memory_mib = mib;
  return process;
}

// Labels of units, "0,3:1".
inline std::string labels(const std::vector<std::size_t>& chosen, const std::vector<model::Unit>& units) {
  std::vector<std::string> names;
  for (const std::size_t i : chosen) names.push_back(units[i].label);
  return join(names, ",");
}

}  // namespace thole::test
