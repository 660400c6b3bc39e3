#include "host/topology/from_hwloc.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.hpp"
#include "host/topology/topology.hpp"

namespace thole::host {

namespace {

using Ports = std::multimap<model::PciAddress, const HwlocPort*>;

// Console adapters of server boards that carry AMD's vendor id: Rage XL, ES1000.
bool is_console(const PciDevice& device) {
  constexpr std::array<std::uint16_t, 2> known{0x4752, 0x515e};
  return vendor_of(device) == model::Vendor::amd && device.device &&
         std::find(known.begin(), known.end(), *device.device) != known.end();
}

// A DRM driver without a render node draws consoles and computes nothing.
bool only_draws(const PciDevice& device, const Ports& ports) {
  bool draws = false;
  for (auto [at, end] = ports.equal_range(device.address); at != end; ++at) {
    const HwlocPort& port = *at->second;
    if (port.kind == HwlocPort::Kind::gpu && !port.name.starts_with("card") && !port.name.starts_with("controlD")) return false;
    draws = draws || port.name.starts_with("card");
  }
  return draws;
}

bool is_gpu(const PciDevice& device, const Ports& ports) {
  const model::PciAddress inside_intel_cpus{0, 0, 2, 0};
  if (!vendor_of(device) || !device.class_code || !is_gpu_class(*device.class_code)) return false;
  if (vendor_of(device) == model::Vendor::intel && device.address == inside_intel_cpus) return false;
  return !is_console(device) && !only_draws(device, ports);
}

// The first of `names` that a port of the device has.
std::string about(const PciDevice& device, const Ports& ports, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (auto [at, end] = ports.equal_range(device.address); at != end; ++at)
      if (auto found = at->second->about.find(name); found != at->second->about.end() && !found->second.empty())
        return found->second;
  return "";
}

// "GV100GL [Tesla V100 SXM2 16GB]" in the PCI database is sold as what stands in the brackets.
std::string sold_as(const std::string& name) {
  const auto open = name.find('['), close = name.rfind(']');
  return open == name.npos || close == name.npos || close < open ? name : name.substr(open + 1, close - open - 1);
}

// In KiB, since hwloc 3 with the unit behind it.
std::optional<std::uint64_t> memory_mib(std::string_view text) {
  if (text.ends_with("KiB")) text.remove_suffix(3);
  const auto kib = parse_u64(trim(text));
  return kib && *kib > 0 ? std::optional(*kib / 1024) : std::nullopt;
}

std::optional<int> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = parse_u64(name.substr(prefix.size()));
  return number && *number < 4096 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

model::Gpu gpu_of(const PciDevice& device, const HwlocScan& scan, const Ports& ports) {
  model::Gpu gpu;
  gpu.vendor = *vendor_of(device);
  gpu.pci = device.address;
  gpu.uuid = about(device, ports, {"NVIDIAUUID"});
  if (const std::string id = about(device, ports, {"AMDUUID"}); !id.empty()) gpu.uuid = "GPU-" + id;
  gpu.model = about(device, ports, {"GPUModel"});
  if (const auto name = scan.names.find(device.address); gpu.model.empty() && name != scan.names.end())
    gpu.model = sold_as(name->second);
  gpu.memory_mib = memory_mib(
      about(device, ports,
            {"RSMIVRAMSize", "CUDAGlobalMemorySize", "LevelZeroHBMSize", "LevelZeroDDRSize", "OpenCLGlobalMemorySize"}));
  for (auto [at, end] = ports.equal_range(device.address); at != end; ++at) {
    if (gpu.vendor != model::Vendor::nvidia)
      if (auto minor = number_after(at->second->name, "renderD")) gpu.minor = minor;
    if (auto index = number_after(at->second->name, "cuda")) gpu.cuda_index = index;
  }
  return gpu;
}

// An InfiniBand device and its network interface are one NIC; libraries ask for it by the former's name.
std::vector<model::Nic> nics_of(const HwlocScan& scan) {
  std::map<model::PciAddress, model::Nic> found;
  for (HwlocPort::Kind kind : {HwlocPort::Kind::infiniband, HwlocPort::Kind::network})
    for (const HwlocPort& port : scan.ports) {
      if (port.kind != kind || !port.pci || port.name.empty() || found.contains(*port.pci)) continue;
      model::Nic& nic = found[*port.pci];
      nic.name = port.name;
      nic.pci = port.pci;
      if (const PciDevice* device = find(scan.devices, port.pci)) nic.numa = device->numa;
    }
  std::vector<model::Nic> nics;
  for (auto& [address, nic] : found) nics.push_back(std::move(nic));
  return nics;
}

// In MB/s and one direction, as hwloc's NVML part counts: 20 GB/s a link of the first generation (P100), 25 GB/s of later ones.
std::uint64_t nvlink_unit(const HwlocScan& scan, const model::PciAddress& address) {
  const PciDevice* device = find(scan.devices, address);
  return device && device->device && *device->device >> 4 == 0x15f ? 20'000 : 25'000;
}

std::optional<int> count_links(std::uint64_t bandwidth, std::uint64_t unit) {
  if (bandwidth == 0 || bandwidth % unit != 0 || bandwidth / unit > 64) return std::nullopt;
  return static_cast<int>(bandwidth / unit);
}

void add_link(std::vector<model::Gpu>& gpus, const model::PciAddress& from, const model::PciAddress& to, model::LinkKind kind,
              std::optional<int> count) {
  for (model::Gpu& gpu : gpus) {
    if (gpu.pci != from) continue;
    model::Link& link = gpu.links.emplace_back();
    link.to = to;
    link.kind = kind;
    link.count = count;
  }
}

void link_by_nvlink(const HwlocScan& scan, const HwlocMatrix& matrix, std::vector<model::Gpu>& gpus) {
  const std::size_t n = matrix.objects.size();
  auto is_gpu = [&](std::size_t i) {
    return matrix.objects[i].pci && !matrix.objects[i].nvswitch &&
           std::any_of(gpus.begin(), gpus.end(), [&](const model::Gpu& gpu) { return gpu.pci == matrix.objects[i].pci; });
  };
  std::vector<std::uint64_t> to_fabric(n, 0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (matrix.objects[j].nvswitch) to_fabric[i] += matrix.values[i * n + j];
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || !is_gpu(i) || !is_gpu(j)) continue;
      const model::PciAddress &from = *matrix.objects[i].pci, &to = *matrix.objects[j].pci;
      const std::uint64_t unit = nvlink_unit(scan, from), direct = matrix.values[i * n + j];
      if (direct > 0) add_link(gpus, from, to, model::LinkKind::nvlink, count_links(direct, unit));
      if (const std::uint64_t fabric = std::min(to_fabric[i], to_fabric[j]))
        add_link(gpus, from, to, model::LinkKind::nvswitch, count_links(fabric, unit));
    }
}

// Bandwidths over xGMI are the same for one link and for several in every export seen so far, so links are not counted.
void link_by_xgmi(const HwlocMatrix& matrix, std::vector<model::Gpu>& gpus) {
  const std::size_t n = matrix.objects.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i != j && matrix.values[i * n + j] > 0 && matrix.objects[i].pci && matrix.objects[j].pci)
        add_link(gpus, *matrix.objects[i].pci, *matrix.objects[j].pci, model::LinkKind::xgmi, std::nullopt);
}

// POWER9's firmware gives the memory of its GPUs the highest node numbers, 255 downwards; newer hwloc leaves them out itself.
void leave_out_gpu_memory(Topology& topology, const std::vector<model::Gpu>& gpus) {
  std::set<int> with_cpus;
  for (const model::Cpu& cpu : topology.cpus)
    if (cpu.numa) with_cpus.insert(*cpu.numa);
  const auto count =
      std::count_if(gpus.begin(), gpus.end(), [](const model::Gpu& gpu) { return gpu.vendor == model::Vendor::nvidia; });
  std::erase_if(topology.numa, [&](const model::NumaNode& node) {
    return !with_cpus.contains(node.id) && node.id <= 255 && node.id > 255 - count;
  });
}

}  // namespace

model::Machine machine_of(HwlocScan scan) {
  Ports ports;
  for (const HwlocPort& port : scan.ports)
    if (port.pci) ports.emplace(*port.pci, &port);
  std::vector<model::Gpu> gpus;  // in PCI order, as the devices are
  for (const auto& [address, device] : scan.devices)
    if (is_gpu(device, ports)) gpus.push_back(gpu_of(device, scan, ports));
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].cuda_index == static_cast<int>(i)) gpus[i].cuda_index.reset();
  for (const HwlocMatrix& matrix : scan.matrices) {
    if (matrix.name == "NVLinkBandwidth") link_by_nvlink(scan, matrix, gpus);
    if (matrix.name == "XGMIBandwidth") link_by_xgmi(matrix, gpus);
  }
  Topology topology;
  topology.nics = nics_of(scan);
  topology.cpus = std::move(scan.cpus);
  topology.numa = std::move(scan.numa);
  topology.devices = std::move(scan.devices);
  leave_out_gpu_memory(topology, gpus);
  return around(topology, std::move(gpus));
}

}  // namespace thole::host
