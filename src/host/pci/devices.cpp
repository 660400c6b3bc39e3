#include "host/pci/devices.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"

namespace thole::host {

namespace {

const std::string devices_directory = "/sys/bus/pci/devices/";

std::optional<std::uint16_t> id16(const Tree& tree, const std::string& path) {
  auto value = tree.hex(path);
  if (!value || *value > UINT16_MAX) return std::nullopt;
  return static_cast<std::uint16_t>(*value);
}

// A root-complex name in a device path: "pci0000:00"; on some ARM servers it lies below a platform device.
bool is_host_bridge(std::string_view name) { return name.starts_with("pci") && name.find(':') != name.npos; }

void read_path(const Tree& tree, const std::string& directory, PciDevice& device) {
  auto real = tree.real(directory);
  if (!real) return;
  for (std::string_view component : split(*real, '/')) {
    if (is_host_bridge(component)) {
      device.host_bridge = component;
      device.bridges.clear();
    } else if (auto address = model::PciAddress::parse(component); address && *address != device.address) {
      device.bridges.push_back(*address);
    }
  }
}

// AMD and Intel cards (and DPUs) carry a small switch of their own vendor above the GPU. Root ports of the same vendor are
// taken along, which changes nothing: they are the first bridge below the host bridge, so if it is not common, that is a phb.
void count_bridges_on_card(const Tree& tree, PciDevice& device) {
  if (!device.vendor) return;
  for (auto bridge = device.bridges.rbegin(); bridge != device.bridges.rend(); ++bridge, ++device.bridges_on_card)
    if (id16(tree, devices_directory + bridge->to_string() + "/vendor") != device.vendor) return;
}

bool is_pci(model::LinkKind kind) {
  using enum model::LinkKind;
  return kind == pix || kind == pxb || kind == phb || kind == node || kind == sys;
}

bool same_memory_node(const PciDevice& a, const PciDevice& b) {
  if (a.numa && b.numa) return *a.numa == *b.numa;
  // Without NUMA (numa_node is -1 everywhere) all devices are local to all CPUs.
  return !a.numa && !b.numa && a.local_cpus && b.local_cpus && *a.local_cpus == *b.local_cpus;
}

bool any_cpu_is_offline(const Tree& tree) {
  const std::string directory = "/sys/devices/system/cpu/";
  const auto present = tree.cpu_list(directory + "present"), online = tree.cpu_list(directory + "online");
  return present && online && !(*present - *online).empty();
}

}  // namespace

bool is_gpu_class(std::uint32_t class_code) { return (class_code >> 16) == 0x03 || (class_code >> 8) == 0x1200; }

std::optional<model::Vendor> vendor_of(const PciDevice& device) {
  const auto row = std::ranges::find_if(model::vendors, [&](const auto& one) { return device.vendor == one.pci_id; });
  return row == std::end(model::vendors) ? std::nullopt : std::optional(row->vendor);
}

std::optional<PciDevice> pci_device(const Tree& tree, const model::PciAddress& address) {
  const std::string directory = devices_directory + address.to_string();
  if (!tree.exists(directory)) return std::nullopt;
  PciDevice device;
  device.address = address;
  device.vendor = id16(tree, directory + "/vendor");
  device.device = id16(tree, directory + "/device");
  if (auto code = tree.hex(directory + "/class"); code && *code <= 0xffffff)
    device.class_code = static_cast<std::uint32_t>(*code);
  device.numa = tree.node(directory + "/numa_node");
  device.local_cpus = tree.cpu_list(directory + "/local_cpulist");
  if (!device.local_cpus) device.local_cpus = tree.cpu_mask(directory + "/local_cpus");
  // Empty: the CPUs of its node are offline; or it is at a node of memory only, which says nothing.
  if (device.local_cpus && device.local_cpus->empty() && !any_cpu_is_offline(tree)) device.local_cpus.reset();
  device.virtual_function = tree.exists(directory + "/physfn");
  read_path(tree, directory, device);
  count_bridges_on_card(tree, device);
  return device;
}

std::vector<PciDevice> pci_gpus(const Tree& tree, model::Vendor vendor) {
  std::vector<PciDevice> found;
  for (const std::string& name : tree.names(devices_directory)) {
    auto address = model::PciAddress::parse(name);
    if (!address || id16(tree, devices_directory + name + "/vendor") != row_of(vendor).pci_id) continue;
    auto device = pci_device(tree, *address);
    if (device && device->class_code && is_gpu_class(*device->class_code)) found.push_back(std::move(*device));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return found;
}

std::optional<model::PciAddress> pci_address_in(std::string_view real_path) {
  std::optional<model::PciAddress> last;
  for (std::string_view component : split(real_path, '/'))
    if (auto address = model::PciAddress::parse(component)) last = address;
  return last;
}

model::LinkKind pci_link(const PciDevice& a, const PciDevice& b) {
  using enum model::LinkKind;
  if (!a.host_bridge.empty() && a.host_bridge == b.host_bridge) {
    std::size_t common = 0;
    while (common < a.bridges.size() && common < b.bridges.size() && a.bridges[common] == b.bridges[common]) ++common;
    if (common == 0) return phb;
    // What lies between the common bridge and the card: nothing, or the one port of the switch the card is plugged into.
    auto ports = [common](const PciDevice& device) {
      std::size_t above_card = device.bridges.size() - device.bridges_on_card;
      return above_card > common ? above_card - common : 0;
    };
    return ports(a) <= 1 && ports(b) <= 1 ? pix : pxb;
  }
  return same_memory_node(a, b) ? node : sys;
}

model::NearCpus near_cpus(const PciDevice& device, const std::vector<model::Cpu>& cpus) {
  model::NearCpus near;
  if (device.local_cpus && !device.local_cpus->empty()) {
    near.node = device.local_cpus;
  } else if (device.numa) {
    model::CpuSet of_node;
    for (const model::Cpu& cpu : cpus)
      if (cpu.numa == device.numa) of_node.add(cpu.id);
    if (!of_node.empty()) near.node = of_node;
  }
  if (!near.node) near.node = device.local_cpus;  // of a node whose CPUs are all offline: known to be none
  if (!near.node) return near;
  std::set<int> packages;
  for (const model::Cpu& cpu : cpus)
    if (cpu.package && near.node->contains(cpu.id)) packages.insert(*cpu.package);
  model::CpuSet of_packages;
  for (const model::Cpu& cpu : cpus)
    if (cpu.package && packages.contains(*cpu.package)) of_packages.add(cpu.id);
  if (!of_packages.empty()) near.package = of_packages;
  return near;
}

const PciDevice* find(const PciDevices& devices, const std::optional<model::PciAddress>& address) {
  if (!address) return nullptr;
  const auto found = devices.find(*address);
  return found == devices.end() ? nullptr : &found->second;
}

void locate(const PciDevices& devices, const std::vector<model::Cpu>& cpus, std::vector<model::Gpu>& gpus) {
  for (model::Gpu& gpu : gpus) {
    const PciDevice* device = find(devices, gpu.pci);
    if (!device) continue;
    if (!gpu.numa) gpu.numa = device->numa;
    const model::NearCpus near = near_cpus(*device, cpus);
    if (!gpu.near_cpus.node) gpu.near_cpus.node = near.node;
    if (!gpu.near_cpus.package) gpu.near_cpus.package = near.package;
  }
}

void link(const PciDevices& devices, model::Machine& machine) {
  std::map<model::PciAddress, const PciDevice*> ends;  // partitions of one GPU share a device
  for (const model::Gpu& gpu : machine.gpus)
    if (const PciDevice* device = find(devices, gpu.pci)) ends[*gpu.pci] = device;
  for (const model::Nic& nic : machine.nics)
    if (const PciDevice* device = find(devices, nic.pci)) ends[*nic.pci] = device;
  const auto add = [&](const model::PciAddress& own, const PciDevice& self, const model::PciAddress& address,
                       const PciDevice& device, std::vector<model::Link>& links) {
    model::Link link;
    link.to = address;
    link.kind = pci_link(self, device);
    const bool told =
        std::any_of(links.begin(), links.end(), [&](const model::Link& l) { return is_pci(l.kind) && l.to == link.to; });
    if (address != own && !told) links.push_back(std::move(link));
  };
  for (model::Gpu& gpu : machine.gpus)
    if (const PciDevice* self = find(devices, gpu.pci))
      for (const auto& [address, device] : ends) add(*gpu.pci, *self, address, *device, gpu.links);
  for (model::Nic& nic : machine.nics)
    if (const PciDevice* self = find(devices, nic.pci))
      for (const model::Nic& other : machine.nics)
        if (const PciDevice* device = find(devices, other.pci)) add(*nic.pci, *self, *other.pci, *device, nic.links);
}

}  // namespace thole::host
