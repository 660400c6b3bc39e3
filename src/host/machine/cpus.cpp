// How this works: each sharing list (thread_siblings_list, the cache's shared_cpu_list, core_siblings_list) is read once per
// group, not once per PU: the first PU of a group marks all its members. That is a few hundred reads on a 256-PU machine
// instead of thousands. Lists name offline PUs on some kernels, so they are cut to the online ones.
#include "host/machine/cpus.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/text.hpp"

namespace thole::host {

namespace {

const std::string cpu_directory = "/sys/devices/system/cpu/";
const std::string node_directory = "/sys/devices/system/node/";

std::string directory_of(unsigned cpu) { return cpu_directory + "cpu" + std::to_string(cpu); }

model::CpuSet online_cpus(const Tree& tree) {
  if (auto listed = tree.cpu_list(cpu_directory + "online"); listed && !listed->empty()) return *listed;
  model::CpuSet online;  // kernels before 2.6.26, and damaged captures
  for (unsigned cpu : tree.numbered(cpu_directory, "cpu"))
    if (tree.text(directory_of(cpu) + "/online").value_or("1") != "0") online.add(cpu);
  return online;
}

// The PUs that share something with `cpu`, from "<file>_list" or, on old kernels, the mask "<file>".
std::optional<model::CpuSet> sharers(const Tree& tree, const std::string& file) {
  if (auto list = tree.cpu_list(file + "_list"); list && !list->empty()) return list;
  if (auto mask = tree.cpu_mask(file); mask && !mask->empty()) return mask;
  return std::nullopt;
}

std::optional<model::CpuSet> core_of(const Tree& tree, unsigned cpu) {
  const std::string topology = directory_of(cpu) + "/topology/";
  auto threads = sharers(tree, topology + "thread_siblings");
  return threads ? threads : tree.cpu_list(topology + "core_cpus_list");
}

std::optional<model::CpuSet> l3_of(const Tree& tree, unsigned cpu) {
  const std::string cache = directory_of(cpu) + "/cache/";
  for (unsigned index : tree.numbered(cache, "index")) {
    const std::string entry = cache + "index" + std::to_string(index);
    if (tree.number(entry + "/level") != 3u) continue;
    auto list = tree.cpu_list(entry + "/shared_cpu_list");
    return list && !list->empty() ? list : tree.cpu_mask(entry + "/shared_cpu_map");
  }
  return std::nullopt;
}

// Numbers the groups that `group_of` tells, by their lowest PU, into `member`. A PU that no earlier group named starts one.
template <class GroupOf>
void number_groups(std::vector<model::Cpu>& cpus, std::optional<int> model::Cpu::*member, GroupOf group_of) {
  int next = 0;
  for (model::Cpu& cpu : cpus) {
    if (cpu.*member) continue;
    std::optional<model::CpuSet> group = group_of(cpu.id);
    if (!group) continue;
    group->add(cpu.id);
    for (model::Cpu& other : cpus)
      if (group->contains(other.id) && !(other.*member)) other.*member = next;
    ++next;
  }
}

// Packages by physical_package_id, not by core_siblings, which some captures and virtual machines get wrong.
void number_packages(const Tree& tree, std::vector<model::Cpu>& cpus) {
  std::map<int, int> numbers;
  for (model::Cpu& cpu : cpus)
    if (auto id = tree.node(directory_of(cpu.id) + "/topology/physical_package_id"))
      cpu.package = numbers.emplace(*id, static_cast<int>(numbers.size())).first->second;
}

void assign_numa(const Tree& tree, std::vector<model::Cpu>& cpus) {
  for (unsigned node : tree.numbered(node_directory, "node")) {
    const std::string directory = node_directory + "node" + std::to_string(node);
    auto members = tree.cpu_list(directory + "/cpulist");
    if (!members) members = tree.cpu_mask(directory + "/cpumap");
    if (!members) continue;
    for (model::Cpu& cpu : cpus)
      if (members->contains(cpu.id)) cpu.numa = static_cast<int>(node);
  }
}

// "Node 0 MemTotal:       129839104 kB"
std::optional<std::uint64_t> memory_mib(const Tree& tree, unsigned node) {
  auto meminfo = tree.text(node_directory + "node" + std::to_string(node) + "/meminfo");
  if (!meminfo) return std::nullopt;
  for (std::string_view line : split_lines(*meminfo)) {
    auto at = line.find("MemTotal:");
    if (at == line.npos) continue;
    std::string_view amount = trim(line.substr(at + 9));
    if (amount.ends_with(" kB")) amount.remove_suffix(3);
    if (auto kib = parse_u64(trim(amount))) return *kib / 1024;
  }
  return std::nullopt;
}

// NVIDIA names the node of a GPU's memory where that is one: "Node:      255".
std::set<unsigned> gpu_memory_nodes(const Tree& tree) {
  std::set<unsigned> nodes;
  const std::string gpus = "/proc/driver/nvidia/gpus/";
  for (const std::string& name : tree.names(gpus)) {
    auto status = tree.text(gpus + name + "/numa_status");
    auto node = status ? number_field(*status, "Node") : std::nullopt;
    if (node) nodes.insert(static_cast<unsigned>(*node));
  }
  return nodes;
}

}  // namespace

std::vector<model::Cpu> read_cpus(const Tree& tree) {
  std::vector<model::Cpu> cpus;
  for (unsigned id : online_cpus(tree).to_vector()) cpus.emplace_back().id = id;
  number_groups(cpus, &model::Cpu::core, [&](unsigned cpu) { return core_of(tree, cpu); });
  number_groups(cpus, &model::Cpu::l3, [&](unsigned cpu) { return l3_of(tree, cpu); });
  number_packages(tree, cpus);
  assign_numa(tree, cpus);
  return cpus;
}

std::vector<model::NumaNode> read_numa(const Tree& tree) {
  std::vector<model::NumaNode> nodes;
  const auto online = tree.cpu_list(node_directory + "online");  // a list of nodes has the same form
  const std::set<unsigned> of_gpus = gpu_memory_nodes(tree);
  for (unsigned node : tree.numbered(node_directory, "node")) {
    if ((online && !online->contains(node)) || of_gpus.contains(node)) continue;
    model::NumaNode& entry = nodes.emplace_back();
    entry.id = static_cast<int>(node);
    entry.memory_mib = memory_mib(tree, node);
  }
  return nodes;
}

}  // namespace thole::host
