// CPU sets in the kernel's form: as many words as it takes, so that CPUs above 1023 are like any other.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <vector>

#include "model/cpu_set.hpp"

namespace thole::host {

using MaskWord = unsigned long;                  // the kernel counts in longs
inline constexpr unsigned mask_word_bits = 8 * sizeof(MaskWord);

std::vector<MaskWord> to_mask(const std::vector<unsigned>& bits);
std::vector<unsigned> to_bits(std::span<const MaskWord> mask);
model::CpuSet to_cpu_set(std::span<const MaskWord> mask);

// Both masks name the same bits, whatever their lengths. Async-signal-safe.
bool same_bits(std::span<const MaskWord> a, std::span<const MaskWord> b);

// The words sched_getaffinity needs on this kernel.
std::size_t affinity_words();

// The mask of a thread (0 = the calling one), cut by its cpuset; nothing when there is none such (errno is set).
std::optional<model::CpuSet> affinity_of(pid_t thread);

// False with errno set when the kernel refuses. It drops CPUs outside of the thread's cpuset without a word.
bool set_affinity(pid_t thread, const model::CpuSet& cpus);

}  // namespace thole::host
