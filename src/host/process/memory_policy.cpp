#include "host/process/memory_policy.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>

namespace thole::host {

namespace {

using model::MemoryPolicy;

// linux/mempolicy.h, which not every Debian image has
enum Mode {
  mode_default, mode_preferred, mode_bind, mode_interleave, mode_local, mode_preferred_many, mode_weighted_interleave
};
constexpr int mode_flags = 7 << 13;              // MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING
constexpr unsigned long flag_mems_allowed = 1 << 2;

unsigned long max_node(std::span<const MaskWord> nodes) {
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (nodes[i] != 0) return i * mask_word_bits + static_cast<unsigned long>(std::bit_width(nodes[i])) + 1;
  return 0;
}

bool single(std::span<const MaskWord> nodes) {
  int count = 0;
  for (MaskWord word : nodes) count += std::popcount(word);
  return count == 1;
}

int call_set(Mode mode, std::span<const MaskWord> nodes) {
  return ::syscall(SYS_set_mempolicy, static_cast<int>(mode), nodes.data(), max_node(nodes)) == 0 ? 0 : errno;
}

int call_get(int& mode, std::span<MaskWord, node_words> nodes, unsigned long flags) {
  const long result = ::syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size_bytes() * 8, nullptr, flags);
  return result == 0 ? 0 : errno;
}

}  // namespace

int set_memory_policy(MemoryPolicy policy, std::span<const MaskWord> nodes) {
  switch (policy) {
    case MemoryPolicy::first_touch: return call_set(mode_default, {});
    case MemoryPolicy::bind: return call_set(mode_bind, nodes);
    case MemoryPolicy::interleave: return call_set(mode_interleave, nodes);
    case MemoryPolicy::preferred: break;
  }
  if (single(nodes)) return call_set(mode_preferred, nodes);
  const int refused = call_set(mode_preferred_many, nodes);
  return refused == EINVAL ? call_set(mode_preferred, nodes) : refused;
}

int get_memory_policy(MemoryPolicy& policy, std::span<MaskWord, node_words> nodes) {
  int mode = 0;
  if (const int refused = call_get(mode, nodes, 0)) return refused;
  switch (mode & ~mode_flags) {
    case mode_preferred: case mode_preferred_many: policy = MemoryPolicy::preferred; break;
    case mode_bind: policy = MemoryPolicy::bind; break;
    case mode_interleave: case mode_weighted_interleave: policy = MemoryPolicy::interleave; break;
    default: policy = MemoryPolicy::first_touch;
  }
  return 0;
}

port::MemoryAccess memory_access() {
  std::array<MaskWord, node_words> nodes{};
  int mode = 0;
  port::MemoryAccess access;
  access.refused = call_get(mode, nodes, flag_mems_allowed);
  if (access.refused == 0)
    for (unsigned node : to_bits(nodes)) access.nodes.push_back(static_cast<int>(node));
  return access;
}

}  // namespace thole::host
