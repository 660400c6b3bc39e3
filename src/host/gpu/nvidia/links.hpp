// NVLinks of one GPU as the library tells them. In the probe only.
#pragma once

#include <cstdint>
#include <map>

#include "host/gpu/nvidia/library.hpp"
#include "host/gpu/nvidia/raw.hpp"

namespace thole::host::nvidia {

// Fills links and peers; `raw.nvswitch_links` is there already. `others`: the GPUs read so far, by index; every pair is seen by
// the one of the two that comes later.
void read_links(RawIdentity& raw, const Functions& call, abi::Device device,
                const std::map<std::uint32_t, abi::Device>& others);

}  // namespace thole::host::nvidia
