// What stays the same about a machine while it runs: its CPUs, memory nodes and NICs, and where its PCI devices are.
//
// A plain value with a text form, one line a thing, in which the probe sends it and the cache keeps it: read back in some
// ten microseconds, which JSON would not be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/pci/devices.hpp"
#include "host/sysfs/tree.hpp"
#include "host/topology/hwloc_library.hpp"
#include "model/machine.hpp"

namespace thole::host {

struct Topology {
  std::string problem;                     // why the CPUs are not known, with the fix; "" when they are
  std::vector<model::Cpu> cpus;            // online PUs, ascending, allowed to us or not
  std::vector<model::NumaNode> numa;       // memory nodes, without the memory of GPUs
  std::vector<model::Nic> nics;            // in PCI order
  PciDevices devices;                      // GPUs of all vendors and NICs
  bool operator==(const Topology&) const = default;
};

// The machine with these GPUs in it: each is told its memory node, its near CPUs and its PCI connections, as far as its own
// driver has not said.
model::Machine around(const Topology& topology, std::vector<model::Gpu> gpus);

// Adds the devices of these GPUs that the topology lacks, read from the files under `tree`: a GPU that came after the topology
// was read, or whose vendor does not show in a captured tree.
void add_devices(const Tree& tree, const std::vector<model::Gpu>& gpus, Topology& topology);

std::string to_text(const Topology& topology);
std::optional<Topology> topology_from_text(std::string_view text);  // nothing when any line is not as to_text() writes it

// Reads the machine whose files lie under `tree`. Takes milliseconds, and longer when a device is slow to answer about itself:
// for a probe. CPUs and memory come from hwloc, with the place of devices for which the kernel names no near CPUs; devices and
// NICs from the kernel's files. Never throws: without hwloc `problem` says so and the rest is still there.
Topology read_topology(const Tree& tree, const std::vector<std::string>& hwloc_paths);

}  // namespace thole::host
