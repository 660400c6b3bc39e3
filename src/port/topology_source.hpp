// Port: the CPUs, memory nodes and NICs of the machine, and where its GPUs are among them.
#pragma once

#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/machine.hpp"

namespace thole::port {

class TopologySource {
 public:
  virtual ~TopologySource() = default;

  // The machine with these GPUs in it. What their own driver has not said is added to them: memory node, near CPUs, PCI
  // connections to each other and to the NICs. Unknown attributes are absent; never throws, takes little more than `patience`.
  virtual model::Machine around(std::vector<model::Gpu> gpus, Millis patience) = 0;

  // Why the CPUs were not known when last asked, with the fix; "" when they were.
  virtual std::string problem() const = 0;
};

}  // namespace thole::port
