#include "host/topology/topology.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/topology/hwloc_scan.hpp"
#include "host/topology/nics.hpp"

namespace thole::host {

namespace {

void read_devices(const Tree& tree, Topology& topology) {
  for (const model::VendorRow& row : model::vendors)
    for (PciDevice& gpu : pci_gpus(tree, row.vendor)) topology.devices.emplace(gpu.address, std::move(gpu));
  for (const model::Nic& nic : topology.nics)
    if (auto device = nic.pci ? pci_device(tree, *nic.pci) : std::nullopt)
      topology.devices.emplace(device->address, std::move(*device));
}

// The kernel's own list of near CPUs comes first: it is what the firmware says. hwloc's nearest object serves where there is
// none, and where it lies within the kernel's list: hwloc knows some boards better than their firmware (the GPUs of a Cray
// EX235A, the MI250X node of Frontier, hang off L3 caches while the kernel names the memory node around two of them). An object
// around all CPUs tells nothing.
void place_by_hwloc(const HwlocScan& scan, Topology& topology) {
  model::CpuSet all;
  for (const model::Cpu& cpu : scan.cpus) all.add(cpu.id);
  for (auto& [address, device] : topology.devices) {
    const PciDevice* placed = find(scan.devices, address);
    if (!placed || !placed->local_cpus || *placed->local_cpus == all) continue;
    const bool told = device.local_cpus && !device.local_cpus->empty();
    if (!told || (*placed->local_cpus - *device.local_cpus).empty()) device.local_cpus = placed->local_cpus;
    if (!device.numa) device.numa = placed->numa;
  }
}

}  // namespace

void add_devices(const Tree& tree, const std::vector<model::Gpu>& gpus, Topology& topology) {
  for (const model::Gpu& gpu : gpus)
    if (gpu.pci && !find(topology.devices, gpu.pci))
      if (auto device = pci_device(tree, *gpu.pci)) topology.devices.emplace(*gpu.pci, std::move(*device));
}

model::Machine around(const Topology& topology, std::vector<model::Gpu> gpus) {
  model::Machine machine;
  machine.cpus = topology.cpus;
  machine.numa = topology.numa;
  machine.nics = topology.nics;
  machine.gpus = std::move(gpus);
  locate(topology.devices, machine.cpus, machine.gpus);
  link(topology.devices, machine);
  return machine;
}

Topology read_topology(const Tree& tree, const std::vector<std::string>& hwloc_paths) {
  Topology topology;
  topology.nics = read_nics(tree);
  read_devices(tree, topology);
  if (!tree.exists("/sys/devices/system/cpu")) {  // hwloc would make up a CPU or two
    topology.problem = "the kernel shows no CPUs (/sys/devices/system/cpu), so nothing is bound to them: mount /sys";
    return topology;
  }
  auto loaded = load_hwloc(hwloc_paths);
  if (const auto* failure = std::get_if<HwlocFailure>(&loaded)) {
    topology.problem = fmt::format("libhwloc cannot be loaded ({}), so the CPUs are not known and nothing is bound to them: "
                                   "sudo apt-get install libhwloc15",
                                   printable(failure->why, 200));
    return topology;
  }
  try {
    HwlocScan scan = scan_machine(std::get<HwlocFunctions>(loaded));
    place_by_hwloc(scan, topology);
    topology.cpus = std::move(scan.cpus);
    topology.numa = std::move(scan.numa);
  } catch (const Error& error) {
    topology.problem = printable(error.full()) + ", so nothing is bound to CPUs";
  }
  return topology;
}

}  // namespace thole::host
