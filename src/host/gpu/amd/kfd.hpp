// The kernel's list of AMD compute devices (KFD topology): raw, as files give it. ROCm's own runtime reads the same files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "host/sysfs/tree.hpp"

namespace thole::host::amd {

struct KfdLink {
  unsigned to = 0;                                 // node number
  std::uint64_t type = 0;
  std::optional<std::uint64_t> weight, min_bandwidth, max_bandwidth;  // MB/s: of one link, and of all between the two
};
inline constexpr std::uint64_t link_type_xgmi = 11;  // CRAT_IOLINK_TYPE_XGMI

struct KfdNode {
  unsigned node = 0;                               // N of nodes/N
  std::optional<std::uint64_t> gpu_id;             // names it under /sys/class/kfd/kfd/proc/<pid>
  std::uint64_t simd_count = 0, cpu_cores = 0;
  std::uint64_t location = 0, domain = 0;          // see translate.hpp
  std::uint64_t unique_id = 0;                     // 0: the chip has none
  std::uint64_t device_id = 0, gfx_version = 0;    // 90402 is gfx942
  std::optional<unsigned> render_minor;
  std::optional<std::uint64_t> memory_bytes;       // sum of the node's memory banks
  std::vector<KfdLink> links;
};

// One node's `properties` text.
KfdNode parse_kfd_properties(std::string_view text);
KfdLink parse_kfd_link(std::string_view text);

// The GPU nodes in KFD order. Nodes that a device cgroup keeps from this process cannot be read and are left out, as the
// runtime leaves them out.
std::vector<KfdNode> read_kfd(const Tree& tree, bool with_links);

inline constexpr const char* kfd_nodes = "/sys/class/kfd/kfd/topology/nodes";

}  // namespace thole::host::amd
