// What Intel GPUs are doing now: idle counters, sensors and DRM clients. May block on a wedged GPU, and wakes a sleeping one.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "host/drm/clients.hpp"
#include "host/gpu/intel/identity.hpp"

namespace thole::host::intel {

// Utilisation and power exist only as counters, so every reading is two looks, this far apart, at all GPUs at once.
inline constexpr std::chrono::milliseconds sample_interval{50};

// One look at the counters of one GPU or tile.
struct Sample {
  std::optional<std::uint64_t> idle_ms;      // time the compute unit spent in its idle state
  std::optional<std::uint64_t> energy_uj;
  std::chrono::steady_clock::time_point at{};
};
Sample take_sample(const Tree& tree, const IntelGpu& entry);

// Share of the time between two looks in which the unit was not idle, 0 to 100; power over the same time.
std::optional<double> busy_percent(const Sample& before, const Sample& after);
std::optional<double> power_w(const Sample& before, const Sample& after);

// Fills gpu.use and, where the hardware does not answer, gpu.health.
void read_use(const Tree& tree, IntelGpu& entry, const Sample& before, const Sample& after,
              const DrmDescriptors& descriptors);

}  // namespace thole::host::intel
