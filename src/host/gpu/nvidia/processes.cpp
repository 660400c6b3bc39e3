#include "host/gpu/nvidia/processes.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.hpp"

namespace thole::host::nvidia {
namespace {

std::vector<RawProcess> decode(std::span<const std::byte> buffer, std::size_t count, std::size_t stride) {
  std::vector<RawProcess> list;
  for (std::size_t i = 0; i < count && (i + 1) * stride <= buffer.size(); ++i) {
    abi::ProcessV2 entry{0, 0, abi::no_instance, abi::no_instance};
    std::memcpy(&entry, buffer.data() + i * stride, std::min(stride, sizeof entry));
    list.push_back({entry.pid, entry.used_memory, entry.gpu_instance, entry.compute_instance});
  }
  return list;
}

bool possible(const std::vector<RawProcess>& list) {
  return std::all_of(list.begin(), list.end(), [](const RawProcess& p) { return p.pid > 0 && p.pid <= largest_pid; });
}

// "535.43.02" -> {535, 43}.
std::optional<std::pair<std::uint64_t, std::uint64_t>> major_minor(std::string_view version) {
  auto parts = split(version, '.');
  if (parts.size() < 2) return std::nullopt;
  auto major = parse_u64(parts[0]), minor = parse_u64(parts[1]);
  if (!major || !minor) return std::nullopt;
  return std::pair{*major, *minor};
}

}  // namespace

std::size_t process_stride(int generation, std::string_view driver_version) {
  if (generation <= 1) return sizeof(abi::ProcessV1);
  auto version = major_minor(driver_version);
  bool wide = generation == 3 && version && version->first == 535 && version->second >= 43 && version->second < 86;
  return wide ? sizeof(abi::ProcessWide) : sizeof(abi::ProcessV2);
}

std::vector<RawProcess> decode_processes(std::span<const std::byte> buffer, std::size_t count, std::size_t stride) {
  std::vector<RawProcess> list = decode(buffer, count, stride);
  if (stride == sizeof(abi::ProcessV1) || possible(list)) return list;
  std::size_t other = stride == sizeof(abi::ProcessV2) ? sizeof(abi::ProcessWide) : sizeof(abi::ProcessV2);
  std::vector<RawProcess> alternative = decode(buffer, count, other);
  return possible(alternative) ? alternative : list;
}

}  // namespace thole::host::nvidia
