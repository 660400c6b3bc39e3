// Which Intel GPUs there are: PCI devices bound to i915 or xe, their tiles and names. Files that cannot block.
#pragma once

#include <string>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host::intel {

enum class Driver { none, i915, xe };

// A GPU, or one tile of a GPU with several, together with what its files are found by.
struct IntelGpu {
  model::Gpu gpu;
  Driver driver = Driver::none;
  std::string device;                        // /sys/bus/pci/devices/<address>
  unsigned tile = 0, tiles = 1;
};

enum class Detail { full, brief };           // brief: without names, for the probe

// In machine order. Intel's GPUs tell no UUID in files: the key is made of the PCI address and the tile.
// * Each tile of a Max (Ponte Vecchio) is a GPU of its own, `part` its number: so Level Zero's default hierarchy (FLAT) has it.
// * Graphics built into the CPU (always at 0000:00:02.0, without memory of their own) are left out.
//   They still count in `cuda_index`, here the number Level Zero gives in PCI order, set where it differs from the position.
// * Functions handed to virtual machines (bound to vfio-pci, or SR-IOV children) are left out.
std::vector<IntelGpu> identify(const Tree& tree, Detail detail);

bool is_integrated(const Tree& tree, const model::PciAddress& address);

// "Intel Data Center GPU Max 1550"; "Intel GPU [8086:xxxx]" for ids not in the table.
std::string product_name(std::uint16_t device);
bool is_discrete(std::uint16_t device);      // in the table: all of these have memory of their own

}  // namespace thole::host::intel
