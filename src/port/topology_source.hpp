// Port: the CPUs, memory nodes and NICs of the machine, without its GPUs.
#pragma once

#include "model/machine.hpp"

namespace thole::port {

class TopologySource {
 public:
  virtual ~TopologySource() = default;

  // A Machine whose `gpus` is empty. Unknown attributes are absent; never throws for a missing file.
  virtual model::Machine read() = 0;
};

}  // namespace thole::port
