// How this works: hwloc's object tree is walked once per kind of object. A PU's core, cache and package are its ancestors. Its
// memory node is the one whose CPUs are fewest, ordinary memory before high-bandwidth memory: hwloc lists memory that has no
// CPUs of its own (HBM, CXL) under the CPUs nearest to it, and the kernel counts those CPUs to the ordinary node. PCI functions
// keep the chain of bridges up to their host bridge, from which connections are classified as for the live machine.
#include "host/topology/hwloc_scan.hpp"

#include <algorithm>
#include <climits>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

class Scanner {
 public:
  Scanner(const HwlocFunctions& hwloc, hwloc_topology_t topology) : hwloc_(hwloc), topology_(topology) {}

  HwlocScan scan() {
    scan_cpus();
    scan_memory();
    for (hwloc_obj_t object : all(HWLOC_TYPE_DEPTH_PCI_DEVICE)) scan_device(object);
    for (hwloc_obj_t object : all(HWLOC_TYPE_DEPTH_OS_DEVICE)) scan_port(object);
    scan_matrices();
    return std::move(result_);
  }

 private:
  std::vector<hwloc_obj_t> all(int depth) const {
    std::vector<hwloc_obj_t> objects;
    for (unsigned i = 0, n = hwloc_.count(topology_, depth); i < n; ++i)
      if (hwloc_obj_t object = hwloc_.object(topology_, depth, i)) objects.push_back(object);
    return objects;
  }

  model::CpuSet cpus_of(hwloc_obj_t object) const {
    model::CpuSet set;
    if (!object || !object->cpuset) return set;
    for (int cpu = hwloc_.bitmap_next(object->cpuset, -1); cpu >= 0; cpu = hwloc_.bitmap_next(object->cpuset, cpu))
      set.add(static_cast<unsigned>(cpu));
    return set;
  }

  static const char* info(hwloc_obj_t object, std::string_view name) {
    for (unsigned i = 0; i < object->infos_count; ++i)
      if (object->infos[i].name == name) return object->infos[i].value;
    return nullptr;
  }

  static hwloc_obj_t ancestor(hwloc_obj_t object, hwloc_obj_type_t type) {
    while (object && object->type != type) object = object->parent;
    return object;
  }

  void scan_cpus() {
    std::vector<hwloc_obj_t> pus = all(hwloc_.type_depth(topology_, HWLOC_OBJ_PU));
    std::sort(pus.begin(), pus.end(), [](hwloc_obj_t a, hwloc_obj_t b) { return a->os_index < b->os_index; });
    std::map<hwloc_obj_t, int> cores, caches, packages;
    auto number = [](std::map<hwloc_obj_t, int>& known, hwloc_obj_t object) -> std::optional<int> {
      if (!object) return std::nullopt;
      return known.emplace(object, static_cast<int>(known.size())).first->second;
    };
    for (hwloc_obj_t pu : pus) {
      model::Cpu& cpu = result_.cpus.emplace_back();
      cpu.id = pu->os_index;
      cpu.core = number(cores, ancestor(pu, HWLOC_OBJ_CORE));
      cpu.l3 = number(caches, ancestor(pu, HWLOC_OBJ_L3CACHE));
      cpu.package = number(packages, ancestor(pu, HWLOC_OBJ_PACKAGE));
    }
  }

  // Memory that programs get only when they ask for it.
  static bool is_special(hwloc_obj_t node) {
    const std::string_view subtype = node->subtype ? node->subtype : "";
    return !subtype.empty() && subtype != "DRAM";
  }

  void scan_memory() {
    using Rank = std::tuple<std::size_t, bool, unsigned>;
    std::map<unsigned, std::pair<Rank, int>> nearest;
    for (hwloc_obj_t node : all(HWLOC_TYPE_DEPTH_NUMANODE)) {
      if (node->subtype && std::string_view(node->subtype) == "GPUMemory") continue;
      model::NumaNode& entry = result_.numa.emplace_back();
      entry.id = static_cast<int>(node->os_index);
      if (const std::uint64_t bytes = node->attr ? node->attr->numanode.local_memory : 0) entry.memory_mib = bytes >> 20;
      const model::CpuSet cpus = cpus_of(node);
      const Rank rank{cpus.size(), is_special(node), node->os_index};
      for (unsigned cpu : cpus.to_vector())
        if (auto known = nearest.find(cpu); known == nearest.end() || rank < known->second.first)
          nearest[cpu] = {rank, entry.id};
    }
    std::sort(result_.numa.begin(), result_.numa.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (model::Cpu& cpu : result_.cpus)
      if (auto node = nearest.find(cpu.id); node != nearest.end()) cpu.numa = node->second.second;
  }

  static model::PciAddress address_of(const PciAttributes& pci) {
    model::PciAddress address;
    address.domain = pci.domain;
    address.bus = pci.bus;
    address.device = pci.dev;
    address.function = pci.func;
    return address;
  }

  void scan_device(hwloc_obj_t object) {
    const PciAttributes& pci = object->attr->pcidev;
    PciDevice& device = result_.devices[address_of(pci)];
    device.address = address_of(pci);
    if (pci.vendor_id) device.vendor = pci.vendor_id;
    if (pci.device_id) device.device = pci.device_id;
    if (pci.class_id) device.class_code = std::uint32_t{pci.class_id} << 8;
    const char* name = info(object, "PCIDevice");
    if (name && *name) result_.names[device.address] = name;
    hwloc_obj_t above = object->parent;
    bool on_card = true;
    for (; above && (above->type == HWLOC_OBJ_BRIDGE || above->type == HWLOC_OBJ_PCI_DEVICE); above = above->parent) {
      if (above->type != HWLOC_OBJ_BRIDGE) continue;
      const auto& bridge = above->attr->bridge;
      if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
        device.host_bridge = fmt::format("pci{:04x}:{:02x}", bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus);
        continue;
      }
      device.bridges.insert(device.bridges.begin(), address_of(bridge.upstream.pci));
      on_card = on_card && device.vendor && bridge.upstream.pci.vendor_id == *device.vendor;
      if (on_card) ++device.bridges_on_card;
    }
    place(device, above);
  }

  void place(PciDevice& device, hwloc_obj_t near) {
    const model::CpuSet cpus = cpus_of(near);
    if (cpus.empty()) return;
    device.local_cpus = cpus;
    std::set<std::optional<int>> nodes;
    for (const model::Cpu& cpu : result_.cpus)
      if (cpus.contains(cpu.id)) nodes.insert(cpu.numa);
    if (nodes.size() == 1) device.numa = *nodes.begin();
  }

  static HwlocPort::Kind kind_of(hwloc_obj_t object) {
    switch (object->attr->osdev.type) {
      case HWLOC_OBJ_OSDEV_GPU:
      case HWLOC_OBJ_OSDEV_COPROC: return HwlocPort::Kind::gpu;
      case HWLOC_OBJ_OSDEV_NETWORK: return HwlocPort::Kind::network;
      case HWLOC_OBJ_OSDEV_OPENFABRICS: return HwlocPort::Kind::infiniband;
      default: return HwlocPort::Kind::other;
    }
  }

  static std::optional<model::PciAddress> pci_of(hwloc_obj_t object) {
    hwloc_obj_t device = ancestor(object, HWLOC_OBJ_PCI_DEVICE);
    if (!device) return std::nullopt;
    return address_of(device->attr->pcidev);
  }

  void scan_port(hwloc_obj_t object) {
    HwlocPort& port = result_.ports.emplace_back();
    port.name = object->name ? object->name : "";
    port.kind = kind_of(object);
    port.pci = pci_of(object);
    for (unsigned i = 0; i < object->infos_count; ++i)
      if (object->infos[i].name && object->infos[i].value) port.about.emplace(object->infos[i].name, object->infos[i].value);
  }

  void scan_matrices() {
    unsigned count = 0;
    if (hwloc_.distances(topology_, &count, nullptr, 0, 0) != 0 || count == 0) return;
    std::vector<hwloc_distances_s*> found(count);
    if (hwloc_.distances(topology_, &count, found.data(), 0, 0) != 0) return;
    found.resize(std::min<std::size_t>(found.size(), count));
    for (hwloc_distances_s* distances : found) {
      if (const char* name = hwloc_.distances_name(topology_, distances)) scan_matrix(name, *distances);
      hwloc_.release_distances(topology_, distances);
    }
  }

  void scan_matrix(const char* name, const hwloc_distances_s& distances) {
    HwlocMatrix matrix;
    matrix.name = name;
    for (unsigned i = 0; i < distances.nbobjs; ++i) {
      hwloc_obj_t object = distances.objs[i];
      HwlocMatrix::Object& entry = matrix.objects.emplace_back();
      if (!object) continue;
      entry.pci = pci_of(object);
      entry.nvswitch = object->subtype && std::string_view(object->subtype) == "NVSwitch";
    }
    matrix.values.assign(distances.values, distances.values + std::size_t{distances.nbobjs} * distances.nbobjs);
    result_.matrices.push_back(std::move(matrix));
  }

  const HwlocFunctions& hwloc_;
  hwloc_topology_t topology_;
  HwlocScan result_;
};

struct Destroy {
  const HwlocFunctions* hwloc;
  void operator()(hwloc_topology* topology) const { hwloc->destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

Handle make(const HwlocFunctions& hwloc, unsigned long flags) {
  hwloc_topology_t raw = nullptr;
  if (hwloc.init(&raw) != 0) throw Error(ErrorCode::unavailable, "hwloc cannot make a topology").because(errno);
  Handle topology(raw, Destroy{&hwloc});
  hwloc.set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc.set_flags(raw, flags) != 0) throw Error(ErrorCode::unavailable, "hwloc refuses its flags").because(errno);
  return topology;
}

// Where the value of an attribute of the element at `from` lies, and how long it is; nothing when it has none of that name.
struct Value {
  std::size_t at = 0, length = 0;
};
std::optional<Value> attribute(std::string_view xml, std::size_t from, std::string_view name) {
  const std::string_view element = xml.substr(from, xml.substr(from).find('>'));
  const std::string opening = fmt::format(" {}=\"", name);
  const auto at = element.find(opening);
  if (at == element.npos) return std::nullopt;
  const auto begin = at + opening.size(), end = element.find('"', begin);
  if (end == element.npos) return std::nullopt;
  return Value{from + begin, end - begin};
}

// hwloc 3: storage 1, memory 2, gpu 4, co-processor 8, network 16, InfiniBand 32, DMA 64, several at once.
hwloc_obj_osdev_type_t old_type(std::uint64_t mask) {
  if (mask & 32) return HWLOC_OBJ_OSDEV_OPENFABRICS;
  if (mask & 16) return HWLOC_OBJ_OSDEV_NETWORK;
  if (mask & 4) return HWLOC_OBJ_OSDEV_GPU;
  if (mask & 8) return HWLOC_OBJ_OSDEV_COPROC;
  if (mask & 64) return HWLOC_OBJ_OSDEV_DMA;
  return HWLOC_OBJ_OSDEV_BLOCK;
}

}  // namespace

HwlocScan scan_machine(const HwlocFunctions& hwloc) {
  // DONT_CHANGE_BINDING leaves out hwloc's x86 part, which would move this process over all CPUs, busy ones included, to ask
  // each for what the kernel's files already tell.
  unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#if HWLOC_API_VERSION >= 0x00020800              // Ubuntu 22.04 has 2.7
  flags |= HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  Handle topology = make(hwloc, flags);
  if (hwloc.load(topology.get()) != 0) throw Error(ErrorCode::unavailable, "hwloc cannot read this machine").because(errno);
  return Scanner(hwloc, topology.get()).scan();
}

HwlocScan scan_xml(const HwlocFunctions& hwloc, std::string xml, const std::string& what) {
  downgrade_hwloc_xml(xml);
  Handle topology = make(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  // The buffer is given with its terminating zero.
  if (xml.size() >= INT_MAX || hwloc.set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) != 0 ||
      hwloc.load(topology.get()) != 0)
    throw Error(ErrorCode::usage, "hwloc does not read it as a topology").about(printable(what, 200));
  return Scanner(hwloc, topology.get()).scan();
}

void downgrade_hwloc_xml(std::string& xml) {
  const auto topology = xml.find("<topology");
  const auto version = topology == xml.npos ? std::nullopt : attribute(xml, topology, "version");
  if (!version || !std::string_view(xml).substr(version->at).starts_with("3.")) return;
  xml.replace(version->at, version->length, "2.0");
  for (auto at = xml.find("<object", topology); at != xml.npos; at = xml.find("<object", at + 1)) {
    const auto type = attribute(xml, at, "osdev_type");
    const auto mask = type ? parse_u64(std::string_view(xml).substr(type->at, type->length)) : std::nullopt;
    if (mask) xml.replace(type->at, type->length, std::to_string(static_cast<int>(old_type(*mask))));
  }
}

}  // namespace thole::host
