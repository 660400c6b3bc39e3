// Machines by their dimensions, for tests of binding: box({.packages = 2, .nodes = 2, .cores = 4, .threads = 2}, {0, 0, 3}) has
// two packages of two NUMA nodes of four cores with two threads, and GPUs on nodes 0, 0 and 3.
#pragma once

#include <vector>

#include "support/machines.hpp"

namespace thole::test {

struct Box {
  int packages = 1;
  int nodes = 1;                               // a package
  int cores = 4;                               // a node
  int threads = 1;                             // a core
  int l3 = 0;                                  // cores under one L3 cache; 0: as many as a node has
};

// PUs are numbered as Linux does on x86: thread 0 of all cores, then thread 1 … A GPU knows its node and nothing else.
inline model::Machine box(const Box& box, const std::vector<std::optional<int>>& gpus) {
  model::Machine machine;
  const int cores = box.packages * box.nodes * box.cores, under_l3 = box.l3 ? box.l3 : box.cores;
  for (int thread = 0; thread < box.threads; ++thread)
    for (int core = 0; core < cores; ++core)
      machine.cpus.push_back({.id = static_cast<unsigned>(thread * cores + core), .core = core, .l3 = core / under_l3,
                              .numa = core / box.cores, .package = core / box.cores / box.nodes});
  for (int node = 0; node < box.packages * box.nodes; ++node) machine.numa.push_back({.id = node, .memory_mib = 65536});
  for (const auto& node : gpus) {
    machine.gpus.push_back(gpu(static_cast<char>('a' + machine.gpus.size()), 0, machine.gpus.size()));
    machine.gpus.back().numa = node;
  }
  return machine;
}

}  // namespace thole::test
