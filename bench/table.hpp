// What every benchmark prints: percentiles of samples, and their ratio to the bare operation's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace thole::bench {

using Samples = std::vector<double>;   // microseconds

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double percentile(Samples samples, double p) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(p / 100 * static_cast<double>(samples.size() - 1))];
}

inline void print_head(const char* title) {
  std::printf("\n%s\n  %-34s %9s %9s %9s %9s %8s\n", title, "", "p50 us", "p90 us", "p99 us", "min us", "samples");
}

inline void print_row(const char* name, const Samples& samples) {
  std::printf("  %-34s %9.1f %9.1f %9.1f %9.1f %8zu\n", name, percentile(samples, 50), percentile(samples, 90),
              percentile(samples, 99), percentile(samples, 0), samples.size());
}

inline void print_limit(const Samples& ours, const Samples& bare, double limit_us) {
  const double p50 = percentile(ours, 50);
  std::printf("  -> p50 %.1f x bare; limit %.0f us: %s\n", p50 / percentile(bare, 50), limit_us,
              p50 <= limit_us ? "met" : "MISSED");
}

inline void print_ratio(const Samples& ours, const Samples& bare, double bound) {
  const double ratio = percentile(ours, 50) / percentile(bare, 50);
  std::printf("  -> p50 %.1f x bare; bound %.1f: %s\n", ratio, bound, ratio <= bound ? "met" : "MISSED");
}

}  // namespace thole::bench
