#include "host/process/cpu_mask.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>

namespace thole::host {

namespace {

constexpr std::size_t most_words = 1u << 16;     // 4 million CPUs; the kernel's own limit is 8192

// The raw call: glibc's copies nothing more than the kernel has, which is what says how long the mask is.
bool read_affinity(pid_t thread, std::vector<MaskWord>& mask) {
  std::fill(mask.begin(), mask.end(), 0);
  return ::sched_getaffinity(thread, mask.size() * sizeof(MaskWord), reinterpret_cast<cpu_set_t*>(mask.data())) == 0;
}

}  // namespace

std::vector<MaskWord> to_mask(const std::vector<unsigned>& bits) {
  std::vector<MaskWord> mask;
  for (unsigned bit : bits) {
    if (bit / mask_word_bits >= mask.size()) mask.resize(bit / mask_word_bits + 1);
    mask[bit / mask_word_bits] |= MaskWord{1} << bit % mask_word_bits;
  }
  return mask;
}

std::vector<unsigned> to_bits(std::span<const MaskWord> mask) {
  std::vector<unsigned> bits;
  for (std::size_t i = 0; i < mask.size() * mask_word_bits; ++i)
    if (mask[i / mask_word_bits] >> i % mask_word_bits & 1) bits.push_back(static_cast<unsigned>(i));
  return bits;
}

model::CpuSet to_cpu_set(std::span<const MaskWord> mask) {
  model::CpuSet cpus;
  for (unsigned bit : to_bits(mask)) cpus.add(bit);
  return cpus;
}

bool same_bits(std::span<const MaskWord> a, std::span<const MaskWord> b) {
  for (std::size_t i = 0; i < a.size() || i < b.size(); ++i)
    if ((i < a.size() ? a[i] : 0) != (i < b.size() ? b[i] : 0)) return false;
  return true;
}

std::size_t affinity_words() {
  std::vector<MaskWord> mask(1024 / mask_word_bits);
  while (!read_affinity(0, mask) && errno == EINVAL && mask.size() < most_words) mask.resize(2 * mask.size());
  return mask.size();
}

std::optional<model::CpuSet> affinity_of(pid_t thread) {
  std::vector<MaskWord> mask(1024 / mask_word_bits);
  while (!read_affinity(thread, mask)) {
    if (errno != EINVAL || mask.size() >= most_words) return std::nullopt;
    mask.resize(2 * mask.size());
  }
  return to_cpu_set(mask);
}

bool set_affinity(pid_t thread, const model::CpuSet& cpus) {
  const std::vector<MaskWord> mask = to_mask(cpus.to_vector());
  return ::sched_setaffinity(thread, mask.size() * sizeof(MaskWord), reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
}

}  // namespace thole::host
