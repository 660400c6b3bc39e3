// The machine's CPUs, memory nodes and NICs read from the kernel's files.
#pragma once

#include <string>

#include "host/sysfs/tree.hpp"
#include "port/topology_source.hpp"

namespace thole::host {

class SysfsTopology : public port::TopologySource {
 public:
  explicit SysfsTopology(std::string root = "") : tree_(std::move(root)) {}

  // name: the host name. Links between GPUs and NICs need the GPUs: see pci/devices.hpp, link().
  model::Machine read() override;

 private:
  Tree tree_;
};

}  // namespace thole::host
