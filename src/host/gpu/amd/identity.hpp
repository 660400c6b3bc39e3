// Which AMD GPUs there are: KFD, PCI, DRM nodes and names, put together. Files that cannot block.
#pragma once

#include <vector>

#include "host/gpu/amd/translate.hpp"

namespace thole::host::amd {

enum class Detail { full, brief };  // brief: without names, for the probe, which only needs to find the files

// In machine order. `cuda_index` is set where ROCm's own numbering (KFD order among the GPUs that this process may open)
// differs from the position here.
std::vector<AmdGpu> identify(const Tree& tree, Detail detail);

inline std::string device_directory(const model::PciAddress& address) { return "/sys/bus/pci/devices/" + address.to_string(); }

}  // namespace thole::host::amd
