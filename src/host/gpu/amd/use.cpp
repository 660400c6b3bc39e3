#include "host/gpu/amd/use.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/drm/device.hpp"
#include "host/sysfs/attribute.hpp"

namespace thole::host::amd {

namespace {

const std::string kfd_processes = "/sys/class/kfd/kfd/proc/";

using Mib = model::Metric<std::uint64_t>;

model::GpuProcess& entry_of(std::vector<model::GpuProcess>& list, pid_t pid) {
  auto known = std::find_if(list.begin(), list.end(), [pid](const model::GpuProcess& process) { return process.pid == pid; });
  if (known != list.end()) return *known;
  list.emplace_back().pid = pid;
  return list.back();
}

void add_process(const Tree& tree, unsigned pid, KfdProcesses& found) {
  const std::string directory = kfd_processes + std::to_string(pid);
  for (const std::string& name : tree.names(directory)) {
    auto gpu = name.starts_with("vram_") ? parse_u64(std::string_view(name).substr(5)) : std::nullopt;
    auto bytes = gpu ? tree.number(directory + "/" + name) : std::nullopt;
    if (bytes && *bytes > 0) entry_of(found[*gpu], static_cast<pid_t>(pid)).memory_mib = mib_of_bytes(*bytes);
  }
  for (unsigned queue : tree.numbered(directory + "/queues", ""))
    if (auto gpu = tree.number(directory + "/queues/" + std::to_string(queue) + "/gpuid")) {
      model::GpuProcess& process = entry_of(found[*gpu], static_cast<pid_t>(pid));
      if (!process.memory_mib) process.memory_mib = 0;
    }
}

// One process may be known to KFD and, for graphics or its memory, to DRM.
void merge(std::vector<model::GpuProcess>& into, const std::vector<model::GpuProcess>& others) {
  for (const model::GpuProcess& other : others) {
    bool known = std::any_of(into.begin(), into.end(), [&](const auto& process) { return process.pid == other.pid; });
    model::GpuProcess& process = entry_of(into, other.pid);
    if (!known) process.kind = other.kind;
    else if (other.kind != model::GpuProcess::Kind::compute) process.kind = model::GpuProcess::Kind::both;
    if (other.memory_mib && *other.memory_mib > process.memory_mib.value_or(0)) process.memory_mib = other.memory_mib;
  }
}

std::uint64_t memory_of(const std::vector<model::GpuProcess>& processes) {
  std::uint64_t sum = 0;
  for (const model::GpuProcess& process : processes) sum += process.memory_mib.value_or(0);
  return sum;
}

// Every partition's bank counter is the whole card's (amdkfd, mem_show: the usage of the device), as the function's is. What
// the processes of all partitions do not account for may belong to any of them, and is told of each.
Mib memory_used_of_partition(const Tree& tree, const AmdGpu& entry, const std::vector<model::GpuProcess>& processes,
                             const std::optional<KfdProcesses>& computing) {
  const std::string bank = std::string(kfd_nodes) + "/" + std::to_string(entry.node) + "/mem_banks/0/used_memory";
  const Mib of_card = mib_attribute(tree, bank);
  if (!of_card) return of_card;
  if (!computing) return Mib::unsupported();               // nobody tells whose it is
  std::uint64_t listed = 0;
  for (std::uint64_t id : entry.card_kfd_ids)
    if (const auto known = computing->find(id); known != computing->end()) listed += memory_of(known->second);
  return memory_of(processes) + memory_of_programs_mib(*of_card, entry.card_memory_mib, listed) - listed;
}

Mib memory_used(const Tree& tree, const AmdGpu& entry, const std::vector<model::GpuProcess>& processes) {
  const Mib used = mib_attribute(tree, device_directory(*entry.gpu.pci) + "/mem_info_vram_used");
  return used ? Mib(memory_of_programs_mib(*used, entry.gpu.memory_mib.value_or(0), memory_of(processes))) : used;
}

void read_sensors(const Tree& tree, const AmdGpu& entry, model::Use& use) {
  const std::string device = device_directory(*entry.gpu.pci), sensors = sensors_of(tree, device);
  auto percent = [&](const char* name) {
    return entry.partitioned ? model::Metric<double>::unsupported() : scaled_attribute(tree, device + name);
  };
  use.utilization_percent = percent("/gpu_busy_percent");
  use.memory_utilization_percent = percent("/mem_busy_percent");
  auto sensor = [&](const char* name, double unit) {
    return sensors.empty() ? model::Metric<double>::unsupported() : scaled_attribute(tree, sensors + name, unit);
  };
  // temp1 is the edge, temp2 the junction; accelerators of the MI300 kind have only the latter.
  use.temperature_c = first_known({sensor("/temp1_input", 1e3), sensor("/temp2_input", 1e3)});
  use.power_w = first_known({sensor("/power1_average", 1e6), sensor("/power1_input", 1e6)});
  use.power_limit_w = sensor("/power1_cap", 1e6);
}

}  // namespace

std::optional<KfdProcesses> read_kfd_processes(const Tree& tree) {
  if (!tree.exists(kfd_processes)) return std::nullopt;
  KfdProcesses found;
  for (unsigned pid : tree.numbered(kfd_processes, "")) add_process(tree, pid, found);
  return found;
}

// An idle MI300X shows some 280 MiB of 192 GiB in use, smaller cards a few dozen; nobody publishes the figure per chip.
// One part in 512 covers it. What processes are known to hold is never deducted.
std::uint64_t memory_of_programs_mib(std::uint64_t used_mib, std::uint64_t total_mib, std::uint64_t known_mib) {
  std::uint64_t of_driver = total_mib / 512;
  return std::max(known_mib, used_mib > of_driver ? used_mib - of_driver : 0);
}

void read_use(const Tree& tree, AmdGpu& entry, const std::optional<KfdProcesses>& computing,
              const DrmDescriptors& descriptors) {
  model::Gpu& gpu = entry.gpu;
  const std::string device = device_directory(*gpu.pci);
  if (off_the_bus(tree, device)) {
    gpu.health = model::Health::lost;
    gpu.health_reason = "it no longer answers on the PCI bus; see dmesg, and reboot the machine if it does not come back";
    return;
  }
  std::vector<model::GpuProcess> processes;
  if (computing && entry.kfd_id)
    if (auto known = computing->find(*entry.kfd_id); known != computing->end()) processes = known->second;
  // A partition has a render node of its own; the card's node belongs to the first.
  DrmNodes nodes = drm_nodes(tree, device);
  if (gpu.part.value_or(0) > 0) nodes.card.reset();
  if (gpu.minor) nodes.render = static_cast<unsigned>(*gpu.minor);
  merge(processes, as_processes(drm_clients(tree, descriptors, nodes.names())));
  gpu.use.memory_used_mib = entry.partitioned ? memory_used_of_partition(tree, entry, processes, computing)
                                              : memory_used(tree, entry, processes);
  if (computing && entry.kfd_id) gpu.use.processes = std::move(processes);
  else gpu.use.processes = model::Metric<std::vector<model::GpuProcess>>::unsupported();
  if (asleep(tree, device)) gpu.use.utilization_percent = 0.0;  // and its sensors are left alone, so that it sleeps on
  else read_sensors(tree, entry, gpu.use);
}

}  // namespace thole::host::amd
