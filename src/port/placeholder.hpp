// Port: a sign of use on claimed GPUs, for pickers that look at processes and not at claims.
#pragma once

#include <string>
#include <vector>

namespace thole::port {

class Placeholder {
 public:
  virtual ~Placeholder() = default;

  // Makes these GPUs (UUIDs) look used, until end() or the death of this process. Throws Error(unavailable) with the reason
  // when that cannot be done; then none of them does.
  virtual void put(const std::vector<std::string>& uuids) = 0;

  // Returns when they look unused again, or after a moment where the driver does not let go.
  virtual void end() = 0;
};

}  // namespace thole::port
