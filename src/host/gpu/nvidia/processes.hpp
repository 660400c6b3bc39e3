// Process lists as the library hands them out: three generations of layouts, one of them broken. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "host/gpu/nvidia/raw.hpp"

namespace thole::host::nvidia {

// Room that one entry needs at most, whatever the generation.
inline constexpr std::size_t widest_process = sizeof(abi::ProcessWide);

// Bytes from one entry to the next that a function of this generation (1, 2, 3) fills in under this driver version.
std::size_t process_stride(int generation, std::string_view driver_version);

// Entries out of the buffer that the library filled. When the expected stride gives impossible pids and the other one of
// the two (24, 32) gives only possible ones, the other is believed.
std::vector<RawProcess> decode_processes(std::span<const std::byte> buffer, std::size_t count, std::size_t stride);

}  // namespace thole::host::nvidia
