#include "host/gpu/amd/identity.hpp"

#include <algorithm>
#include <map>

#include "host/drm/device.hpp"
#include "host/sysfs/attribute.hpp"

namespace thole::host::amd {

namespace {

std::string model_name(const Tree& tree, const AmdGpu& entry, const std::optional<std::string>& ids) {
  const std::string device = device_directory(*entry.gpu.pci);
  if (auto name = tree.text(device + "/product_name"); name && !name->empty()) return *name;
  auto revision = tree.hex(device + "/revision");
  std::string name = ids && revision ? name_in_ids(*ids, entry.device_id, *revision) : "";
  return name.empty() ? fallback_name(entry.device_id) : name;
}

void read_total_memory(const Tree& tree, AmdGpu& entry) {
  if (entry.gpu.memory_mib || entry.partitioned) return;
  if (auto bytes = tree.number(device_directory(*entry.gpu.pci) + "/mem_info_vram_total")) entry.gpu.memory_mib = *bytes >> 20;
}

void check_access(const Tree& tree, model::Gpu& gpu) {
  std::string problem = access_problem(tree, "/dev/kfd");
  if (problem.empty() && gpu.minor) problem = access_problem(tree, "/dev/dri/renderD" + std::to_string(*gpu.minor));
  if (problem.empty()) return;
  gpu.health = model::Health::unreadable;
  gpu.health_reason = problem;
}

// ROCm counts the nodes it can open, in KFD order, built-in graphics included.
void number_as_rocm(std::vector<AmdGpu>& gpus) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].gpu.health != model::Health::unreadable) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return gpus[a].node < gpus[b].node; });
  for (std::size_t index = 0; index < order.size(); ++index) gpus[order[index]].gpu.cuda_index = static_cast<int>(index);
}

}  // namespace

std::vector<AmdGpu> identify(const Tree& tree, Detail detail) {
  std::vector<AmdGpu> gpus = translate(read_kfd(tree, detail == Detail::full));
  for (AmdGpu& entry : gpus) check_access(tree, entry.gpu);
  number_as_rocm(gpus);
  std::erase_if(gpus, [](const AmdGpu& entry) { return is_integrated(entry.gfx_version); });
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].gpu.cuda_index == static_cast<int>(i)) gpus[i].gpu.cuda_index.reset();
  for (AmdGpu& entry : gpus) read_total_memory(tree, entry);
  if (detail == Detail::brief) return gpus;
  const auto ids = tree.text("/usr/share/libdrm/amdgpu.ids");
  for (AmdGpu& entry : gpus) {
    entry.gpu.model = model_name(tree, entry, ids);
    entry.gpu.display = drives_display(tree, device_directory(*entry.gpu.pci));
  }
  return gpus;
}

}  // namespace thole::host::amd
