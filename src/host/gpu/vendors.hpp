// All vendors' folders, in the order of model::vendors.
#pragma once

#include <span>
#include <string_view>

#include "host/gpu/vendor.hpp"

namespace thole::host {

std::span<const GpuVendor* const> gpu_vendors();
const GpuVendor* gpu_vendor(std::string_view name);  // null when there is none of this name

}  // namespace thole::host
