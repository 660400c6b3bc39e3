// Memory policies by the system calls themselves: libnuma is not needed for three of them.
//
// Facts (set_mempolicy(2), kernel mm/mempolicy.c): a policy belongs to a thread, is inherited by fork and kept over exec. The
// node mask is cut to cpuset.mems; nothing left is EINVAL. The kernel looks at one bit less than `maxnode`, hence highest bit +
// 2. MPOL_PREFERRED takes the lowest node of its mask; several are MPOL_PREFERRED_MANY, which Linux has since 5.15. In Docker's
// default seccomp profile all of these calls are EPERM without CAP_SYS_NICE.
#pragma once

#include <span>
#include <vector>

#include "host/process/cpu_mask.hpp"
#include "model/binding.hpp"
#include "port/binder.hpp"

namespace thole::host {

// Everything below is async-signal-safe except memory_access().

// Sets the policy of the calling thread; errno, or 0. Several preferred nodes are one on a kernel without PREFERRED_MANY.
int set_memory_policy(model::MemoryPolicy policy, std::span<const MaskWord> nodes);

// Words for the nodes of get_memory_policy: more than any kernel has (its limit is 1024).
inline constexpr std::size_t node_words = 4096 / mask_word_bits;

// The policy of the calling thread; errno, or 0.
int get_memory_policy(model::MemoryPolicy& policy, std::span<MaskWord, node_words> nodes);

// The nodes that policies of this thread may name.
port::MemoryAccess memory_access();

}  // namespace thole::host
