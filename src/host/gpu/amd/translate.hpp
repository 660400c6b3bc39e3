// From KFD's nodes to GPUs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/gpu/amd/kfd.hpp"
#include "model/machine.hpp"

namespace thole::host::amd {

// A GPU together with what its files are found by.
struct AmdGpu {
  model::Gpu gpu;
  unsigned node = 0;                               // KFD node
  std::optional<std::uint64_t> kfd_id;
  std::uint64_t device_id = 0, gfx_version = 0;
  bool partitioned = false;                        // shares its PCI function, its sensors and its memory counters with others
  std::vector<std::uint64_t> card_kfd_ids;         // of all partitions of the card, this one included
  std::uint64_t card_memory_mib = 0;               // of all of them together
};

// In machine order: by PCI address, then partition. How a node is named:
// * location_id is bus<<8 | device<<3 | function. In a partitioned GPU (CPX, DPX…) the kernel puts the partition's number
//   where the function is: nodes with one unique_id at one bus and device are the partitions of one PCI function.
// * uuid is "GPU-" and 16 hex digits as ROCm's runtime prints it; "" when the chip has none, and for partitions, because all
//   partitions of a GPU have the same (then the PCI address and the part are the key).
// * links: xGMI only, from io_links; the best where partitions give several to one PCI address. count: physical links.
std::vector<AmdGpu> translate(const std::vector<KfdNode>& nodes);

// Graphics built into a CPU, which this tool leaves alone. Strix Halo (gfx1151) and MI300A are no such thing: people buy them
// to compute on.
bool is_integrated(std::uint64_t gfx_version);

// A product's name: from libdrm's amdgpu.ids text ("740F,\t02,\tAMD Instinct MI210"), "" when it is not there.
std::string name_in_ids(std::string_view ids, std::uint64_t device, std::uint64_t revision);

// For compute cards that older lists lack; else "AMD GPU [1002:xxxx]".
std::string fallback_name(std::uint64_t device);

}  // namespace thole::host::amd
