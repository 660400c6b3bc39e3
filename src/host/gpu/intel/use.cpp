#include "host/gpu/intel/use.hpp"

#include <algorithm>

#include "host/drm/device.hpp"
#include "host/sysfs/attribute.hpp"

namespace thole::host::intel {

namespace {

using Mib = model::Metric<std::uint64_t>;
using Processes = model::Metric<std::vector<model::GpuProcess>>;

constexpr const char* hidden_by_users = "processes of other users show their GPU memory to root only";

// The first unit of a tile is the one with the compute engines; a second one holds media engines.
std::string idle_counter(const Tree& tree, const IntelGpu& entry) {
  if (entry.driver == Driver::xe) {
    const std::string tile = entry.device + "/tile" + std::to_string(entry.tile);
    auto units = tree.numbered(tile, "gt");
    return units.empty() ? "" : tile + "/gt" + std::to_string(units.front()) + "/gtidle/idle_residency_ms";
  }
  auto card = drm_nodes(tree, entry.device).card;
  if (!card) return "";
  const std::string directory = entry.device + "/drm/card" + std::to_string(*card);
  const std::string of_unit = directory + "/gt/gt" + std::to_string(entry.tile) + "/rc6_residency_ms";
  return tree.exists(of_unit) ? of_unit : directory + "/power/rc6_residency_ms";
}

// The out-of-tree i915 tells what is left to everybody; else the clients that can be seen have to be all there are.
Mib memory_used(const Tree& tree, const IntelGpu& entry, bool all_are_seen, const std::vector<model::GpuProcess>& processes) {
  auto card = drm_nodes(tree, entry.device).card;
  const std::string directory = entry.device + "/drm/card" + std::to_string(card.value_or(0));
  auto total = tree.number(directory + "/lmem_total_bytes"), left = tree.number(directory + "/lmem_avail_bytes");
  if (entry.tiles == 1 && total && left && *left <= *total) return mib_of_bytes(*total - *left);
  if (!all_are_seen) return Mib::failed(hidden_by_users);
  std::uint64_t sum = 0;
  for (const model::GpuProcess& process : processes) sum += process.memory_mib.value_or(0);
  return sum;
}

void read_sensors(const Tree& tree, const IntelGpu& entry, model::Use& use) {
  const std::string sensors = sensors_of(tree, entry.device);
  if (sensors.empty()) {
    use.temperature_c = use.power_limit_w = model::Metric<double>::unsupported();
    return;
  }
  // temp1 is the package on i915, temp2 on xe, which leaves temp1 out.
  use.temperature_c = first_known(
      {scaled_attribute(tree, sensors + "/temp1_input", 1e3), scaled_attribute(tree, sensors + "/temp2_input", 1e3)});
  // Of the card, of the card by its newer name, of the package.
  use.power_limit_w = first_known({scaled_attribute(tree, sensors + "/power1_max", 1e6),
                                   scaled_attribute(tree, sensors + "/power1_cap", 1e6),
                                   scaled_attribute(tree, sensors + "/power2_max", 1e6)});
}

// energy1 is the card's, energy2 the package's. Some cards have only the latter, and on some the former is there and stays 0:
// a counter that counts has counted something since the machine was started.
std::optional<std::uint64_t> energy_uj(const Tree& tree, const std::string& sensors) {
  for (const char* name : {"/energy1_input", "/energy2_input"})
    if (const auto energy = tree.number(sensors + name); energy && *energy > 0) return energy;
  return std::nullopt;
}

template <class T>
model::Metric<T> or_unsupported(std::optional<T> value) {
  return value ? model::Metric<T>(*value) : model::Metric<T>::unsupported();
}

}  // namespace

Sample take_sample(const Tree& tree, const IntelGpu& entry) {
  Sample sample;
  sample.at = std::chrono::steady_clock::now();
  if (entry.driver == Driver::none || asleep(tree, entry.device)) return sample;
  if (std::string counter = idle_counter(tree, entry); !counter.empty()) sample.idle_ms = tree.number(counter);
  if (std::string sensors = sensors_of(tree, entry.device); !sensors.empty())
    sample.energy_uj = energy_uj(tree, sensors);
  return sample;
}

std::optional<double> busy_percent(const Sample& before, const Sample& after) {
  const double elapsed_ms = std::chrono::duration<double, std::milli>(after.at - before.at).count();
  if (!before.idle_ms || !after.idle_ms || *after.idle_ms < *before.idle_ms || elapsed_ms <= 0) return std::nullopt;
  const double idle = static_cast<double>(*after.idle_ms - *before.idle_ms) / elapsed_ms;
  return std::clamp(100.0 * (1.0 - idle), 0.0, 100.0);
}

std::optional<double> power_w(const Sample& before, const Sample& after) {
  const double elapsed_us = std::chrono::duration<double, std::micro>(after.at - before.at).count();
  if (!before.energy_uj || !after.energy_uj || *after.energy_uj < *before.energy_uj || elapsed_us <= 0) return std::nullopt;
  return static_cast<double>(*after.energy_uj - *before.energy_uj) / elapsed_us;
}

void read_use(const Tree& tree, IntelGpu& entry, const Sample& before, const Sample& after,
              const DrmDescriptors& descriptors) {
  model::Gpu& gpu = entry.gpu;
  if (off_the_bus(tree, entry.device)) {
    gpu.health = model::Health::lost;
    gpu.health_reason = "it no longer answers on the PCI bus; see dmesg, and reboot the machine if it does not come back";
    return;
  }
  const auto clients = drm_clients(tree, descriptors, drm_nodes(tree, entry.device).names());
  auto processes = as_processes(clients, entry.tiles > 1 ? std::optional(entry.tile) : std::nullopt);
  gpu.use.memory_used_mib = memory_used(tree, entry, descriptors.complete, processes);
  gpu.use.processes = descriptors.complete ? Processes(std::move(processes)) : Processes::failed(hidden_by_users);
  gpu.use.memory_utilization_percent = model::Metric<double>::unsupported();
  if (asleep(tree, entry.device)) {  // its sensors are left alone, so that it sleeps on
    gpu.use.utilization_percent = 0.0;
    return;
  }
  gpu.use.utilization_percent = or_unsupported(busy_percent(before, after));
  gpu.use.power_w = entry.tiles == 1 ? or_unsupported(power_w(before, after)) : model::Metric<double>::unsupported();
  read_sensors(tree, entry, gpu.use);
}

}  // namespace thole::host::intel
