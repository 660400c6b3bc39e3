#include "host/topology/complete.hpp"

#include <set>

namespace thole::host {

namespace {

void complete(model::Gpu& gpu, const model::Gpu& known, const std::set<model::PciAddress>& addresses) {
  if (gpu.uuid.empty()) gpu.uuid = known.uuid;
  if (gpu.model.empty()) gpu.model = known.model;
  if (!gpu.memory_mib) gpu.memory_mib = known.memory_mib;
  if (!gpu.numa) gpu.numa = known.numa;
  if (!gpu.memory_numa) gpu.memory_numa = known.memory_numa;
  if (!gpu.near_cpus.node) gpu.near_cpus.node = known.near_cpus.node;
  if (!gpu.near_cpus.package) gpu.near_cpus.package = known.near_cpus.package;
  if (!gpu.links.empty()) return;
  for (const model::Link& link : known.links)
    if (addresses.contains(link.to)) gpu.links.push_back(link);
}

}  // namespace

void complete(model::Machine& machine, const model::Machine& topology) {
  machine.cpus = topology.cpus;
  machine.numa = topology.numa;
  if (machine.nics.empty()) machine.nics = topology.nics;
  if (machine.gpus.empty()) machine.gpus = topology.gpus;
  std::set<model::PciAddress> addresses;
  for (const model::Gpu& gpu : machine.gpus)
    if (gpu.pci) addresses.insert(*gpu.pci);
  for (const model::Nic& nic : machine.nics)
    if (nic.pci) addresses.insert(*nic.pci);
  for (model::Gpu& gpu : machine.gpus)
    for (const model::Gpu& known : topology.gpus)
      if (gpu.pci && gpu.pci == known.pci) complete(gpu, known, addresses);
}

}  // namespace thole::host
