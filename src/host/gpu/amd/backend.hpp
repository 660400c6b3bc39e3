// AMD GPUs, from the kernel's files alone: KFD topology, sysfs, fdinfo. No library: ROCm's change their ABI with almost every
// release, take locks shared between processes, and read these same files.
#pragma once

#include "host/drm/backend.hpp"
#include "host/gpu/vendor.hpp"

namespace thole::host {

namespace amd {
extern const FileVendor vendor;
extern const GpuVendor functions;
}

class AmdBackend : public FileBackend {
 public:
  explicit AmdBackend(FileOptions options) : FileBackend(amd::vendor, std::move(options)) {}
};

}  // namespace thole::host
