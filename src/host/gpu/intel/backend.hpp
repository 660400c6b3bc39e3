// Intel GPUs (Arc, Flex, Max), from the files of the i915 and xe drivers. No library: Level Zero would tell little more
// without root, and is not needed to claim.
#pragma once

#include "host/drm/backend.hpp"
#include "host/gpu/vendor.hpp"

namespace thole::host {

namespace intel {
extern const FileVendor vendor;
extern const GpuVendor functions;
}

class IntelBackend : public FileBackend {
 public:
  explicit IntelBackend(FileOptions options) : FileBackend(intel::vendor, std::move(options)) {}
};

}  // namespace thole::host
