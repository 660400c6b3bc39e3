// How this works: both drivers are asked twice, for the length of the answer and for the answer: a count, then regions of 88
// bytes with their class first (0 the host's memory, 1 the card's). Declared here by the kernel's include/uapi/drm/xe_drm.h
// (drm_xe_device_query, drm_xe_query_mem_regions) and i915_drm.h (drm_i915_query, drm_i915_query_memory_regions).
#include "host/gpu/intel/memory.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string>

#include "base/fd.hpp"
#include "host/drm/device.hpp"

namespace thole::host::intel {
namespace {

struct XeQuery {
  std::uint64_t extensions;
  std::uint32_t query, size;
  std::uint64_t data, reserved[2];
};
struct I915Item {
  std::uint64_t query_id;
  std::int32_t length;
  std::uint32_t flags;
  std::uint64_t data;
};
struct I915Query {
  std::uint32_t items, flags;
  std::uint64_t items_at;
};
constexpr unsigned long xe_device_query = _IOWR('d', 0x40, XeQuery), i915_query = _IOWR('d', 0x40 + 0x39, I915Query);
constexpr std::uint32_t xe_mem_regions = 1;
constexpr std::uint64_t i915_memory_regions = 4;
static_assert(sizeof(XeQuery) == 40 && sizeof(I915Item) == 24 && sizeof(I915Query) == 16);

// Where the parts of an answer lie: the first region, and the total within a region.
struct Layout { std::size_t head, total; };
constexpr Layout xe_layout{8, 8}, i915_layout{16, 8};
constexpr std::size_t region_size = 88;
constexpr std::uint16_t on_the_card = 1;
constexpr std::size_t largest_answer = 64 << 10;

template <class T>
T number_at(const std::vector<char>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<std::uint64_t> decode(const std::vector<char>& answer, Layout layout) {
  std::vector<std::uint64_t> memories;
  if (answer.size() < layout.head) return memories;
  const std::size_t told = number_at<std::uint32_t>(answer, 0), room = (answer.size() - layout.head) / region_size;
  for (std::size_t i = 0; i < std::min(told, room); ++i) {
    const std::size_t at = layout.head + i * region_size;
    if (number_at<std::uint16_t>(answer, at) == on_the_card)
      memories.push_back(number_at<std::uint64_t>(answer, at + layout.total));
  }
  return memories;
}

std::uint64_t address_of(void* data) { return reinterpret_cast<std::uintptr_t>(data); }

std::vector<char> ask_xe(const Query& query) {
  XeQuery question{};
  question.query = xe_mem_regions;
  if (query(xe_device_query, &question) != 0 || question.size == 0 || question.size > largest_answer) return {};
  std::vector<char> answer(question.size);
  question.data = address_of(answer.data());
  return query(xe_device_query, &question) == 0 ? answer : std::vector<char>();
}

std::vector<char> ask_i915(const Query& query) {
  I915Item item{i915_memory_regions, 0, 0, 0};
  I915Query question{1, 0, address_of(&item)};
  const auto told = [&] {
    return query(i915_query, &question) == 0 && item.length > 0 && static_cast<std::size_t>(item.length) <= largest_answer;
  };
  if (!told()) return {};
  std::vector<char> answer(static_cast<std::size_t>(item.length));
  item.data = address_of(answer.data());
  return told() ? answer : std::vector<char>();
}

}  // namespace

std::vector<std::uint64_t> card_memories(Driver driver, const Query& query) {
  switch (driver) {
    case Driver::xe: return decode(ask_xe(query), xe_layout);
    case Driver::i915: return decode(ask_i915(query), i915_layout);
    case Driver::none: break;
  }
  return {};
}

std::optional<std::uint64_t> asked_memory_mib(const Tree& tree, const IntelGpu& entry) {
  const auto render = drm_nodes(tree, entry.device).render;
  if (!render) return std::nullopt;
  const std::string path = tree.at("/dev/dri/renderD" + std::to_string(*render));
  const Fd node = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY);
  if (!node) return std::nullopt;
  const auto memories = card_memories(entry.driver, [&](unsigned long request, void* argument) {
    int rc;
    do { rc = ::ioctl(node.get(), request, argument); } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    return rc;
  });
  const std::uint64_t all = std::accumulate(memories.begin(), memories.end(), std::uint64_t{0});
  if (all == 0) return std::nullopt;
  return (memories.size() == entry.tiles ? memories[entry.tile] : all / entry.tiles) >> 20;
}

}  // namespace thole::host::intel
