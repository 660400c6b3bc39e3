// What the driver's accounting mode says of processes, also of those that are over: how much memory each has had at most.
//
// The mode belongs to a GPU. It is off until root turns it on (nvidia-smi -am 1), it is forgotten when the driver unloads, and
// a GPU in MIG mode is left out here: its accounts are not told apart by instance.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "host/gpu/nvidia/library.hpp"
#include "host/gpu/nvidia/raw.hpp"
#include "host/gpu/nvidia/translate.hpp"

namespace thole::host::nvidia {

// In the probe only, after the library was initialised. Processes that started before `since_us` are left out. The driver
// keeps a ring of processes (nvmlDeviceGetAccountingBufferSize); what has dropped out of it cannot be read.
RawAccounts read_accounts(const Functions& call, const std::string& uuid, std::uint64_t since_us);

// By UUID, whether the driver keeps accounts of the GPU, where a reading has asked for that.
std::map<std::string, bool> accounting(const RawReading& reading);

// The largest process of any of the GPUs, of those that started within the span; rounded up. Nothing when there was none, or
// when a GPU or the driver's figure for one of them could not be read: a smaller process must not pass for the largest.
std::optional<std::uint64_t> peak_memory_mib(std::span<const RawAccounts> all, WallTime from, WallTime to);

std::uint64_t in_us(WallTime time);

}  // namespace thole::host::nvidia
