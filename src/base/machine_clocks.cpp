#include "base/machine_clocks.hpp"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole {
namespace {

// The file tells it of our children's namespace.
ClocksAhead read_clocks_ahead() {
  char own[64] = {}, of_children[64] = {};
  ClocksAhead ahead;
  if (::readlink("/proc/self/ns/time", own, sizeof own - 1) <= 0) {
    ahead.known = ::access("/proc/self/ns/pid", F_OK) == 0;   // a kernel without time namespaces
    return ahead;
  }
  if (::readlink("/proc/self/ns/time_for_children", of_children, sizeof of_children - 1) <= 0 ||
      std::string_view(own) != of_children)
    return ahead;
  const std::optional<std::string> offsets = read_file("/proc/self/timens_offsets", 4096);
  if (!offsets) return ahead;
  ahead.known = true;
  for (std::string_view line : split_lines(*offsets)) {
    char clock[16] = {};
    long long seconds = 0, nanoseconds = 0;
    if (std::sscanf(std::string(line).c_str(), "%15s %lld %lld", clock, &seconds, &nanoseconds) != 3) continue;
    const auto by = std::chrono::seconds{seconds} + std::chrono::nanoseconds{nanoseconds};
    if (std::string_view(clock) == "boottime") ahead.boottime = by;
    if (std::string_view(clock) == "monotonic") ahead.monotonic = by;
  }
  return ahead;
}

}  // namespace

const ClocksAhead& clocks_ahead() {
  static const ClocksAhead ahead = read_clocks_ahead();
  return ahead;
}

Millis of_ticks(std::uint64_t ticks) { return Millis{ticks * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK))}; }

std::chrono::nanoseconds machine_up() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec} - clocks_ahead().boottime;
}

Millis since_boot() { return std::chrono::duration_cast<Millis>(machine_up()); }

std::optional<Millis> known_since_boot() { return clocks_ahead().known ? std::optional(since_boot()) : std::nullopt; }

}  // namespace thole
