// The machine arranged for drawing: every core, GPU and NIC in the one place it belongs to, and what shares a PCIe switch.
//
// A device belongs to its NUMA node; where that is not known, to the node or package that holds all its near CPUs; else it
// stands apart. Every attribute may be missing: a machine of which only the GPUs are known still has an arrangement.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/show/joins.hpp"
#include "model/machine.hpp"

namespace thole::app {

struct CoreGroup {               // cores with one level-3 cache, or all of a place where caches are not told
  std::optional<int> l3;
  std::vector<model::CpuSet> cores;  // the CPUs of each, by lowest CPU
};

// Devices behind one PCIe switch or several joined ones; or one device by itself.
struct Cluster {
  std::optional<model::LinkKind> kind;  // pix or pxb; absent for one device
  std::vector<std::size_t> gpus, nics;  // indices into the machine
};

// A NUMA node within a package, or what has no node.
struct Place {
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_mib;
  bool cores_told = true;        // else each CPU stands as a core of its own, though it may be a thread of one
  std::vector<CoreGroup> groups;
  std::vector<Cluster> clusters;

  std::vector<model::CpuSet> cores() const;  // of all groups
  bool has_devices() const { return !clusters.empty(); }
};

struct Package {
  std::optional<int> number;
  std::vector<Place> places;     // by node
};

struct Arrangement {
  std::vector<Package> packages;  // those with CPUs
  std::vector<Place> apart;       // nodes without CPUs, those of several packages (their devices only), devices of no node
  std::vector<int> split;         // nodes whose CPUs lie in several packages
};

Arrangement arrange(const model::Machine& machine, const Joins& joins);

}  // namespace thole::app
