#include "host/gpu/nvidia/instances.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/gpu/nvidia/translate.hpp"

namespace thole::host::nvidia {
namespace {

using model::GpuProcess;

RawProcesses only(const RawProcesses& list, const RawInstance& instance) {
  if (!list || !instance.gpu_instance) return list;
  RawProcesses mine(std::vector<RawProcess>{});
  for (const RawProcess& p : list.value) {
    bool same_gi = p.gpu_instance == instance.gpu_instance.value;
    bool same_ci = p.compute_instance == abi::no_instance || !instance.compute_instance ||
                   p.compute_instance == instance.compute_instance.value;
    if (same_gi && same_ci) mine.value.push_back(p);
  }
  return mine;
}

// "NVIDIA A100-SXM4-40GB MIG 3g.20gb" -> "3g.20gb"; drivers that do not say so: from the slices and the memory.
std::string profile_of(const RawInstance& raw) {
  constexpr std::string_view mark = " MIG ";
  if (auto at = raw.name.value.rfind(mark); raw.name && at != std::string::npos) return raw.name.value.substr(at + mark.size());
  if (!raw.gpu_slices || !raw.memory_mib) return "";
  std::uint64_t gib = (raw.memory_mib.value + 1023) / 1024;
  std::string profile = fmt::format("{}g.{}gb", raw.gpu_slices.value, gib);
  bool part_of_it = raw.compute_slices && raw.compute_slices.value < raw.gpu_slices.value;
  return part_of_it ? fmt::format("{}c.{}", raw.compute_slices.value, profile) : profile;
}

model::Instance to_instance(const RawInstance& raw, const RawUse& parent) {
  model::Instance instance;
  instance.uuid = raw.uuid.value;
  instance.profile = profile_of(raw);
  if (raw.memory_mib && raw.memory_mib.value > 0) instance.memory_mib = raw.memory_mib.value;
  else if (raw.memory && raw.memory.value.total > 0) instance.memory_mib = (raw.memory.value.total >> 20);
  if (raw.gpu_instance) instance.instance[0] = static_cast<int>(raw.gpu_instance.value);
  if (raw.compute_instance) instance.instance[1] = static_cast<int>(raw.compute_instance.value);
  instance.use.memory_used_mib = used_mib(raw.memory);
  // The parent's lists name the instance of every process; only where they are refused were the instances asked themselves.
  instance.use.processes = merge_processes(raw.compute, raw.graphics, raw.mps);
  if (parent.compute)
    instance.use.processes = merge_processes(only(parent.compute, raw), only(parent.graphics, raw), only(parent.mps, raw));
  // These the driver tells of the GPU as a whole only.
  instance.use.utilization_percent = instance.use.memory_utilization_percent = model::Metric<double>::unsupported();
  instance.use.temperature_c = instance.use.power_w = instance.use.power_limit_w = model::Metric<double>::unsupported();
  return instance;
}

// The compute instances of one GPU instance.
std::vector<model::Instance*> siblings_of(model::Gpu& gpu, int gpu_instance) {
  std::vector<model::Instance*> siblings;
  for (model::Instance& instance : gpu.mig)
    if (instance.instance[0] == gpu_instance && gpu_instance >= 0) siblings.push_back(&instance);
  return siblings;
}

std::uint64_t slices_of(const RawUse& raw, const model::Instance& instance) {
  for (const RawInstance& one : raw.instances)
    if (one.uuid && one.uuid.value == instance.uuid && one.compute_slices) return one.compute_slices.value;
  return 0;
}

// Absent where the driver does not tell it of one of them.
std::optional<std::uint64_t> memory_of_processes(const model::Instance& instance) {
  if (!instance.use.processes) return std::nullopt;
  std::uint64_t sum = 0;
  for (const GpuProcess& process : *instance.use.processes) {
    if (!process.memory_mib) return std::nullopt;
    sum += *process.memory_mib;
  }
  return sum;
}

// What the library calls an instance's memory and its use is that of the GPU instance. Of the use, each has what its own
// processes hold, and what nobody's process accounts for, which may be anybody's.
void divide(const std::vector<model::Instance*>& siblings, const RawUse& raw) {
  std::uint64_t all_slices = 0, explained = 0;
  bool told = true;
  for (const model::Instance* one : siblings) {
    all_slices += slices_of(raw, *one);
    const auto own = memory_of_processes(*one);
    told = told && own;
    explained += own.value_or(0);
  }
  for (model::Instance* one : siblings) {
    const std::uint64_t part = all_slices > 0 ? slices_of(raw, *one) : 1;
    if (one->memory_mib) one->memory_mib = *one->memory_mib * part / std::max<std::uint64_t>(all_slices, siblings.size());
    if (!one->use.memory_used_mib) continue;
    const std::uint64_t used = *one->use.memory_used_mib, hidden = used > explained ? used - explained : 0;
    if (told) one->use.memory_used_mib = *memory_of_processes(*one) + hidden;
    else one->use.memory_used_mib = model::Metric<std::uint64_t>::unsupported();
  }
}

}  // namespace

void add_instances(model::Gpu& gpu, const RawUse& raw) {
  gpu.mig.clear();
  for (const RawInstance& instance : raw.instances)
    if (instance.uuid) gpu.mig.push_back(to_instance(instance, raw));
  std::vector<int> divided;
  for (const model::Instance& instance : gpu.mig) {
    const int id = instance.instance[0];
    if (std::find(divided.begin(), divided.end(), id) != divided.end()) continue;
    divided.push_back(id);
    if (const auto siblings = siblings_of(gpu, id); siblings.size() > 1) divide(siblings, raw);
  }
}

void sum_instances(model::Gpu& gpu, const RawUse& raw) {
  std::uint64_t used = 0;
  std::vector<GpuProcess> processes;
  bool all_memory = !gpu.mig.empty(), all_processes = !gpu.mig.empty();
  for (const model::Instance& instance : gpu.mig) {
    all_processes &= instance.use.processes.known();
    for (const GpuProcess& p : instance.use.processes.value_or({})) processes.push_back(p);
  }
  std::vector<std::uint32_t> counted;                      // the memory of a GPU instance, once
  for (const RawInstance& instance : raw.instances) {
    const auto of_instance = used_mib(instance.memory);
    all_memory &= of_instance.known();
    const std::uint32_t id = instance.gpu_instance.value;
    if (instance.gpu_instance && std::find(counted.begin(), counted.end(), id) != counted.end()) continue;
    counted.push_back(id);
    used += of_instance.value_or(0);
  }
  if (!gpu.use.memory_used_mib && all_memory) gpu.use.memory_used_mib = used;
  if (!gpu.use.processes && all_processes) gpu.use.processes = processes;
}

}  // namespace thole::host::nvidia
