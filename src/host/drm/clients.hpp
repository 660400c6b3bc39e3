// The programs that have a GPU open through the kernel's DRM interface, from /proc/<pid>/fdinfo (AMD and Intel; NVIDIA's own
// driver does not take part). Keys: the kernel's Documentation/gpu/drm-usage-stats.rst.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

// An open descriptor of a DRM device node. Finding it asks no driver.
struct DrmDescriptor {
  pid_t pid = 0;
  unsigned number = 0;
  std::string node;                                 // "renderD128", "card0"
};

struct DrmDescriptors {
  std::vector<DrmDescriptor> list;                  // by pid
  bool complete = true;                             // false: some processes could not be looked into, so others may exist
};

// Looks through all processes, but at no more than `most` descriptors.
DrmDescriptors find_drm_descriptors(const Tree& tree, std::size_t most = 100'000);

// A program's context on a device, as its fdinfo tells.
struct DrmClient {
  pid_t pid = 0;
  std::string driver;                               // "amdgpu", "i915", "xe"
  std::uint64_t id = 0;                             // unique per device; several descriptors may show one client
  std::map<unsigned, std::uint64_t> local_kib;      // memory held on the device, by memory region (0, or one per tile)
  bool compute = false, graphics = false;           // has had work on an engine of that kind

  std::optional<std::uint64_t> memory_kib() const;  // over all regions
};

// One fdinfo text; nothing when it is not that of a DRM client.
std::optional<DrmClient> parse_drm_fdinfo(std::string_view text);

// The clients of one device, each once, under its lowest pid. Asks the driver, which takes locks: in the probe only.
std::vector<DrmClient> drm_clients(const Tree& tree, const DrmDescriptors& descriptors, const std::vector<std::string>& nodes);

// What they amount to as processes, one entry per pid. Clients that hold no memory and have run nothing (a display manager's
// open descriptor) are left out. `region`: count only that memory region.
std::vector<model::GpuProcess> as_processes(const std::vector<DrmClient>& clients,
                                            std::optional<unsigned> region = std::nullopt);

}  // namespace thole::host
