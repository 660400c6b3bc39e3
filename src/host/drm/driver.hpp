// What the files of a vendor's DRM driver tell of it, for `doctor`.
#pragma once

#include <initializer_list>

#include "host/sysfs/tree.hpp"
#include "model/surroundings.hpp"

namespace thole::host {

// `modules`: the kernel drivers that its GPUs may have; of several that are loaded the last is told of. `compute_node`: what
// programs open beside the nodes of the GPUs; "" for nothing.
model::VendorDriver drm_driver(const Tree& tree, model::Vendor vendor, std::initializer_list<const char*> modules,
                               const char* compute_node = "");

}  // namespace thole::host
