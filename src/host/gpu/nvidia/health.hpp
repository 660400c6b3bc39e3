// What return codes, recovery actions, Xids and the NVLink fabric mean for a GPU's health, and what mends it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/gpu/nvidia/kernel_log.hpp"
#include "host/gpu/nvidia/raw.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {

// Unless something else was found before: the first finding is the cause.
void find_ill(model::Gpu& gpu, model::Health health, std::string reason);

// One call among many that says the GPU is gone says it for all of them.
void judge(model::Gpu& gpu, abi::Return rc);
void judge_use(model::Gpu& gpu, const RawUse& raw);

// A GPU that hangs on NVSwitches computes only when their manager has joined it to the others.
void judge_fabric(model::Gpu& gpu, const RawIdentity& identity, const RawUse& use);

// What the kernel's log adds. The log remembers what may have been mended since by a reset, so the library has the last word
// where it can have one: a driver that says itself which recovery a GPU needs,
// and a GPU that answers has not fallen off the bus.
void judge_log(model::Gpu& gpu, const LoggedXids& logged, const RawUse* use);

// What a doctor says of a GPU that works: rows of its memory that wait for a reset, clocks that are held down.
std::vector<std::string> remarks(const RawIdentity& identity, const RawUse& use);

// "the driver asks for a reset: sudo nvidia-smi --gpu-reset -i …": what abi::RecoveryAction wants done, and how.
std::string describe_recovery(std::uint64_t action, const model::Gpu& gpu);

}  // namespace thole::host::nvidia
