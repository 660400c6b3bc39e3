// Port: a sign of use on claimed GPUs, for pickers that look at processes and not at claims.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace thole::port {

class Placeholder {
 public:
  virtual ~Placeholder() = default;

  // Makes these GPUs (UUIDs) look used, until end() or the death of this process. Throws Error(unavailable) with the reason
  // when that cannot be done; then none of them does.
  virtual void put(const std::vector<std::string>& uuids) = 0;

  // Until what it returns is dropped, no such picker chooses, as far as that can be had: after a moment it is gone without. A
  // readable descriptor of `cancel` ends the wait by Error(interrupted).
  virtual std::shared_ptr<void> alone(std::span<const int> cancel) = 0;

  // Returns when they look unused again, or after a moment where the driver does not let go.
  virtual void end() = 0;
};

}  // namespace thole::port
