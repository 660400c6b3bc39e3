// PCI devices as sysfs shows them: what they are, which CPUs and memory they are near, how two of them are connected.
//
// Shared by all vendors; needs no vendor library and wakes no GPU. Sources: /sys/bus/pci/devices/<address>/
// {vendor,device,class,numa_node,local_cpulist} and the path behind that symbolic link, which lists the bridges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

struct PciDevice {
  model::PciAddress address;
  std::optional<std::uint16_t> vendor, device;
  std::optional<std::uint32_t> class_code;      // 0x030200: class, subclass, programming interface
  std::optional<int> numa;                      // absent when the platform does not say (-1)
  std::optional<model::CpuSet> local_cpus;      // absent when the platform tells nothing; empty: of a node without a CPU online
  std::string host_bridge;                      // "pci0000:00"; "" when the path is not known
  std::vector<model::PciAddress> bridges;       // from the host bridge down, the device not included
  std::size_t bridges_on_card = 0;              // how many of the last ones belong to the card itself
  bool virtual_function = false;                // an SR-IOV function whose parent this machine also has
  bool operator==(const PciDevice&) const = default;
};

// Display controllers (0x03xxxx) and processing accelerators (0x1200xx, where AMD Instinct is found).
bool is_gpu_class(std::uint32_t class_code);

// Nothing for a vendor whose GPUs are not read.
std::optional<model::Vendor> vendor_of(const PciDevice& device);

// Nothing when this machine has no such device.
std::optional<PciDevice> pci_device(const Tree& tree, const model::PciAddress& address);

// All GPUs of a vendor, in PCI order, whether or not a driver is bound to them.
std::vector<PciDevice> pci_gpus(const Tree& tree, model::Vendor vendor);

// The PCI address in the path of a device ("…/0000:43:00.0/infiniband/mlx5_0"): the last component that is one.
std::optional<model::PciAddress> pci_address_in(std::string_view real_path);

// How two devices are connected, in the terms of `nvidia-smi topo -m`:
//   pix   at most one PCI switch between them        pxb   several switches, but no host bridge
//   phb   the same host bridge                       node  host bridges of one NUMA node         sys  else
// A card's own bridge (AMD and Intel cards carry one) does not count as a switch.
model::LinkKind pci_link(const PciDevice& a, const PciDevice& b);

// node: the CPUs that the platform calls local to the device. package: all CPUs of the packages those belong to.
model::NearCpus near_cpus(const PciDevice& device, const std::vector<model::Cpu>& cpus);

// What is known of some devices, by address.
using PciDevices = std::map<model::PciAddress, PciDevice>;
const PciDevice* find(const PciDevices& devices, const std::optional<model::PciAddress>& address);

// Fills `numa` and `near_cpus` of GPUs that are among the devices, where they are not yet known.
void locate(const PciDevices& devices, const std::vector<model::Cpu>& cpus, std::vector<model::Gpu>& gpus);

// Adds to every GPU its PCI connection to each other GPU and NIC, beside the NVLink or xGMI that may join them too; to every
// NIC that to each other NIC.
void link(const PciDevices& devices, model::Machine& machine);

}  // namespace thole::host
