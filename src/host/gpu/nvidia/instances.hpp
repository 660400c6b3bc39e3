// MIG instances out of what the library says of them and of their GPU. Pure.
#pragma once

#include "host/gpu/nvidia/raw.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {

// Fills gpu.mig. Compute instances of one GPU instance share its memory: each is given its part of it, by compute slices, so
// that claims of all of them never add up to more than there is.
void add_instances(model::Gpu& gpu, const RawUse& raw);

// Without the privilege to read the whole GPU, it is the sum of its instances, if all of them could be read.
void sum_instances(model::Gpu& gpu, const RawUse& raw);

}  // namespace thole::host::nvidia
