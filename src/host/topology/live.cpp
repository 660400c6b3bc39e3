#include "host/topology/live.hpp"

#include "host/topology/nics.hpp"

namespace thole::host {

LiveTopology::LiveTopology(LiveTopologyOptions options)
    : root_(options.root), tree_(options.root), reader_(options.reader), cache_(options.reader.runtime_dir) {}

void LiveTopology::refresh(Millis patience) {
  std::string key = topology_key(tree_);
  if (known_ && key == key_) return;
  key_ = std::move(key);
  known_ = cache_.find(key_);
  if (known_) {
    // A link that was down when the cache was written may be up by now.
    for (model::Nic& nic : known_->nics)
      if (!nic.rate_gbps) nic.rate_gbps = nic_rate(tree_, nic.name);
    return;
  }
  known_ = reader_.read_machine(root_, patience);
  if (known_->problem.empty()) cache_.keep(key_, *known_);
}

model::Machine LiveTopology::around(std::vector<model::Gpu> gpus, Millis patience) {
  refresh(patience);
  add_devices(tree_, gpus, *known_);
  model::Machine machine = host::around(*known_, std::move(gpus));
  machine.name = tree_.text("/proc/sys/kernel/hostname").value_or("");
  return machine;
}

}  // namespace thole::host
