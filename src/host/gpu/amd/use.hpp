// What AMD GPUs are doing now: sysfs counters, sensors, KFD's processes and DRM clients. May block on a wedged GPU.
#pragma once

#include <map>
#include <vector>

#include "host/drm/clients.hpp"
#include "host/gpu/amd/identity.hpp"

namespace thole::host::amd {

// Compute processes by KFD's id of the GPU. KFD lists every process that has ever opened /dev/kfd under every GPU; one counts
// here only where it holds memory or has a queue. Readable by all users, numbered as the host numbers them.
using KfdProcesses = std::map<std::uint64_t, std::vector<model::GpuProcess>>;
std::optional<KfdProcesses> read_kfd_processes(const Tree& tree);  // nothing when this kernel does not list them

// Fills gpu.use, and gpu.health where the hardware does not answer.
void read_use(const Tree& tree, AmdGpu& entry, const std::optional<KfdProcesses>& computing, const DrmDescriptors& descriptors);

// VRAM in use without what the driver keeps for itself, which counts as used in mem_info_vram_used even on an idle GPU.
std::uint64_t memory_of_programs_mib(std::uint64_t used_mib, std::uint64_t total_mib, std::uint64_t known_mib);

}  // namespace thole::host::amd
