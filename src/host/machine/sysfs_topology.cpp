#include "host/machine/sysfs_topology.hpp"

#include "host/machine/cpus.hpp"
#include "host/machine/nics.hpp"

namespace thole::host {

model::Machine SysfsTopology::read() {
  model::Machine machine;
  machine.name = tree_.text("/proc/sys/kernel/hostname").value_or("");
  machine.cpus = read_cpus(tree_);
  machine.numa = read_numa(tree_);
  machine.nics = read_nics(tree_);
  return machine;
}

}  // namespace thole::host
