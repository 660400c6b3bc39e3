// Every real machine of tests/topologies, through the importers that people use and two more that only tests need: KFD trees
// and the topology files of NCCL and RCCL. Read once in a process.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <pugixml.hpp>
#include <stdexcept>
#include <string>

#include "base/text.hpp"
#include "host/gpu/amd/backend.hpp"
#include "host/import/import.hpp"
#include "host/sysfs/tree.hpp"
#include "host/topology/topology.hpp"
#include "test_folders.hpp"
#include "topologies/captured.hpp"

namespace thole::test {

inline host::TopologyReader topology_reader() { return host::TopologyReader({THOLE_BINARY_DIR "/fake/fake_probe", "", ""}); }

// A topology file of NCCL or RCCL: CPUs by their affinity masks, PCI devices below each CPU as a tree of bridges, links
// counted.
class NcclTopology {
 public:
  explicit NcclTopology(const std::string& path) {
    if (!document_.load_file(path.c_str()) || !document_.child("system")) throw std::runtime_error("no NCCL topology: " + path);
    for (const pugi::xml_node& cpu : document_.child("system").children("cpu")) add_cpu(cpu);
  }

  model::Machine machine() {
    std::stable_sort(gpus_.begin(), gpus_.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
    std::stable_sort(topology_.nics.begin(), topology_.nics.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
    return host::around(topology_, gpus_);
  }

 private:
  void add_cpu(const pugi::xml_node& cpu) {
    const int node = cpu.attribute("numaid").as_int(-1);
    near_ = host::parse_cpu_mask(cpu.attribute("affinity").value());
    if (near_ && near_->empty()) near_.reset();
    numa_ = node >= 0 ? std::optional(node) : std::nullopt;
    if (numa_) topology_.numa.emplace_back().id = node;
    for (unsigned id : near_.value_or(model::CpuSet()).to_vector()) {
      model::Cpu& entry = topology_.cpus.emplace_back();
      entry.id = id;
      entry.numa = numa_;
    }
    std::sort(topology_.cpus.begin(), topology_.cpus.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    // Bridges are listed only where they join devices, so two devices without a common one may or may not share a root.
    for (const pugi::xml_node& pci : cpu.children("pci")) add_pci(pci, {}, fmt::format("pci{:04x}:00", node + 1));
  }

  void add_pci(const pugi::xml_node& pci, std::vector<model::PciAddress> bridges, const std::string& root) {
    const auto address = model::PciAddress::parse(pci.attribute("busid").value());
    if (!address) return;
    const std::uint32_t class_code = pci.attribute("class").as_uint(0);
    for (const pugi::xml_node& nic : pci.children("nic")) add_nics(nic, *address);
    if (pci.child("gpu") || host::is_gpu_class(class_code)) add_gpu(pci, *address);
    host::PciDevice& device = topology_.devices[*address];
    device.address = *address;
    device.class_code = class_code;
    device.numa = numa_;
    device.local_cpus = near_;
    device.host_bridge = root;
    device.bridges = bridges;
    bridges.push_back(*address);
    for (const pugi::xml_node& below : pci.children("pci")) add_pci(below, bridges, root);
  }

  void add_nics(const pugi::xml_node& nic, const model::PciAddress& address) {
    const pugi::xml_node net = nic.child("net");
    model::Nic& entry = topology_.nics.emplace_back();
    entry.name = net.attribute("name").as_string("nic");
    entry.pci = address;
    entry.numa = numa_;
    if (const double megabits = net.attribute("speed").as_double(0); megabits > 0) entry.rate_gbps = megabits / 1000;
  }

  void add_gpu(const pugi::xml_node& pci, const model::PciAddress& address) {
    model::Gpu& gpu = gpus_.emplace_back();
    const std::uint32_t vendor = pci.attribute("vendor").as_uint(0);
    gpu.vendor = vendor == 0x1002 || !pci.child("gpu").attribute("gcn").empty() ? model::Vendor::amd : model::Vendor::nvidia;
    gpu.pci = address;
    for (const char* kind : {"nvlink", "xgmi"})
      for (const pugi::xml_node& each : pci.child("gpu").children(kind)) {
        const auto to = model::PciAddress::parse(each.attribute("target").value());
        if (!to || to == address) continue;        // a GPU that names itself has these links to a switch that is not shown
        model::Link& link = gpu.links.emplace_back();
        link.to = *to;
        link.kind = *model::parse_link_kind(kind);
        link.count = each.attribute("count").as_int(1);
      }
  }

  pugi::xml_document document_;
  host::Topology topology_;
  std::vector<model::Gpu> gpus_;
  std::optional<model::CpuSet> near_;
  std::optional<int> numa_;
};

// A tree of /sys/class/kfd/kfd/topology alone: its CPU nodes are memory nodes with so many CPUs each, a GPU's memory node is
// the CPU node to which its link weighs least.
inline model::Machine machine_of_kfd(const std::string& topology_directory) {
  test::MadeUpTree tree;
  tree.folder("sys/class/kfd/kfd");
  std::filesystem::create_directory_symlink(topology_directory, tree.root() + "/sys/class/kfd/kfd/topology");
  const host::Tree files(tree.root());
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  host::Topology topology;
  std::map<unsigned, int> numa_of;                 // KFD's number of a CPU node -> memory node
  for (unsigned node : files.numbered(nodes, "")) {
    const std::string properties = files.text(nodes + std::to_string(node) + "/properties").value_or("");
    const auto count = host::number_field(properties, "cpu_cores_count");
    if (!count || *count == 0) continue;
    const int numa = static_cast<int>(numa_of.size());
    numa_of[node] = numa;
    topology.numa.emplace_back().id = numa;
    for (std::uint64_t i = 0; i < *count; ++i) {
      model::Cpu cpu;
      cpu.id = static_cast<unsigned>(topology.cpus.size());
      cpu.numa = numa;
      topology.cpus.push_back(cpu);
    }
  }
  std::vector<model::Gpu> gpus = host::AmdBackend({tree.root()}).read(Millis(1000)).gpus;
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> nearest;  // domain and location (bus and device) -> memory node
  for (unsigned node : files.numbered(nodes, "")) {
    const std::string directory = nodes + std::to_string(node);
    const std::string properties = files.text(directory + "/properties").value_or("");
    if (numa_of.contains(node)) continue;
    std::uint64_t least = UINT64_MAX;
    for (unsigned link : files.numbered(directory + "/io_links", "")) {
      const std::string about = files.text(directory + "/io_links/" + std::to_string(link) + "/properties").value_or("");
      const auto to = host::number_field(about, "node_to"), weight = host::number_field(about, "weight");
      if (!to || !weight || !numa_of.contains(static_cast<unsigned>(*to)) || *weight >= least) continue;
      least = *weight;
      nearest[{host::number_field(properties, "domain").value_or(0),
               host::number_field(properties, "location_id").value_or(0) >> 3}] = numa_of[static_cast<unsigned>(*to)];
    }
  }
  for (model::Gpu& gpu : gpus) {
    gpu.health = model::Health::ok;
    gpu.health_reason.clear();
    const auto node = nearest.find({gpu.pci->domain, (gpu.pci->bus << 8 | gpu.pci->device << 3) >> 3});
    if (node == nearest.end()) continue;
    gpu.numa = node->second;
    model::CpuSet near;
    for (const model::Cpu& cpu : topology.cpus)
      if (cpu.numa == gpu.numa) near.add(cpu.id);
    gpu.near_cpus.node = near;
  }
  return host::around(topology, std::move(gpus));
}

// "mpibind/eas-tioga", "nvsmi/dgx-a100", "nccl/ndv4-topo", "kfd/topo-mi300-cpx", "tree/nvidia-dgx-gb10", … -> the machine.
inline const std::map<std::string, model::Machine>& real_machines() {
  namespace fs = std::filesystem;
  static const std::map<std::string, model::Machine> machines = [] {
    std::map<std::string, model::Machine> all;
    const host::TopologyReader reader = topology_reader();
    auto add = [&](const std::string& source, const fs::path& path, model::Machine machine) {
      const std::string name = source + "/" + path.stem().string();
      machine.name = name;
      all.emplace(name, std::move(machine));
    };
    for (const auto& [source, archive] :
         {std::pair{"mpibind", "mpibind/topo-xml"}, {"prrte", "prrte/test-topo"}, {"hwloc", "hwloc/xml"}})
      for (const auto& file : fs::recursive_directory_iterator(captured_tree(std::string(archive) + ".tar.gz")))
        if (file.path().extension() == ".xml") add(source, file.path(), host::import_file(file.path().string(), reader));
    for (const auto& file : fs::directory_iterator(THOLE_SOURCE_DIR "/tests/topologies/nvsmi"))
      if (file.path().extension() == ".txt") add("nvsmi", file.path(), host::import_file(file.path().string(), reader));
    for (const auto& [source, archive] : {std::pair{"nccl", "nccl/topo"}, {"rccl", "rccl/models"}})
      for (const auto& file : fs::recursive_directory_iterator(captured_tree(std::string(archive) + ".tar.gz")))
        if (file.path().extension() == ".xml" && file.path().stem() != "ncv4-graph")
          add(source, file.path(), NcclTopology(file.path().string()).machine());
    for (const char* name : {"16amd64-8n2c-cpusets", "16em64t-4s2c2t-offlines", "32amd64-4s2n4c-cgroup", "40intel64-2g2n4c+pci",
                             "fakepcilocalities", "nvidia-dgx-gb10", "nvidiagpunumanodes", "offline-cpu0-node0"})
      add("tree", name,
          host::import_tree(host::root_in(captured_tree(std::string("hwloc/") + name + ".tar.gz").string()), {}, reader));
    for (const auto& [name, where] : {std::pair{"topo-mi210-xgmi-pcie", ""}, {"topo-mi300-cpx", "topology"},
                                      {"topology-parsing-mi308", "topology"}, {"topology-parsing", "topology"}})
      add("kfd", name, machine_of_kfd((captured_tree("kfd/k8s-device-plugin.tar.gz") / name / where).string()));
    return all;
  }();
  return machines;
}

}  // namespace thole::test
