#include "host/gpu/vendors.hpp"

#include <algorithm>
#include <iterator>

#include "host/gpu/amd/backend.hpp"
#include "host/gpu/intel/backend.hpp"
#include "host/gpu/nvidia/backend.hpp"

namespace thole::host {

namespace {

constexpr const GpuVendor* of_folders[] = {&nvidia::functions, &amd::functions, &intel::functions};
static_assert(std::size(of_folders) == std::size(model::vendors), "a vendor's row in model/vendors.hpp has its folder here");

}  // namespace

std::span<const GpuVendor* const> gpu_vendors() { return of_folders; }

const GpuVendor* gpu_vendor(std::string_view name) {
  const auto found = std::ranges::find_if(of_folders, [&](const GpuVendor* one) { return name == to_string(one->vendor); });
  return found == std::end(of_folders) ? nullptr : *found;
}

}  // namespace thole::host
