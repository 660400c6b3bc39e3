// Attributes as metrics: a value, "unsupported" where the driver has no such file, or the reason why it could not be read.
#pragma once

#include <cstdint>
#include <string>

#include "host/sysfs/tree.hpp"
#include "model/metric.hpp"

namespace thole::host {

model::Metric<std::uint64_t> number_attribute(const Tree& tree, const std::string& path);

// The number divided by `unit`: millidegrees by 1000, microwatts by 1e6.
model::Metric<double> scaled_attribute(const Tree& tree, const std::string& path, double unit = 1);

// Bytes -> MiB, rounded up: a byte in use is not none.
model::Metric<std::uint64_t> mib_attribute(const Tree& tree, const std::string& path);

// The first that has a value; else the first that failed; else unsupported.
template <class T>
model::Metric<T> first_known(std::initializer_list<model::Metric<T>> metrics) {
  for (const auto& metric : metrics)
    if (metric.known()) return metric;
  for (const auto& metric : metrics)
    if (metric.state() == model::Metric<T>::State::failed) return metric;
  return model::Metric<T>::unsupported();
}

inline std::uint64_t mib_of_bytes(std::uint64_t bytes) { return bytes / (1u << 20) + (bytes % (1u << 20) != 0); }

}  // namespace thole::host
