// What the kernel is asked for one process, and what it gave.
#pragma once

#include <optional>
#include <vector>

#include "model/binding.hpp"
#include "model/cpu_set.hpp"

namespace thole::model {

// CPUs and memory policy of one thread: asked for, or read back.
struct Binding {
  std::optional<CpuSet> cpus;                    // absent: left alone, or not readable
  std::optional<MemoryPolicy> memory;            // likewise
  std::vector<int> memory_nodes;                 // of preferred, bind and interleave
  bool operator==(const Binding&) const = default;
};

// What became of a binding in the thread it was for.
struct Bound {
  Binding got;                                   // of what was asked: read back from the kernel
  int cpus_refused = 0, memory_refused = 0;      // errno of the call that should have set it; 0 = accepted
};

}  // namespace thole::model
