// Binding processes that run already: putting a plan into one and reading it back; and the process that asks, as a rank.
#pragma once

#include "app/claim/bind_rank.hpp"

namespace thole::app {

// What became of it.
struct Put {
  port::BoundProcess process;                  // as it is now
  std::vector<std::string> differences;        // from the plan; under strict an Error(unavailable) instead
};

// All threads of a process, onto the CPUs of this rank. Throws Error(unavailable) where the plan binds it to none.
Put put_on_cpus(port::Binder& binder, pid_t pid, const Binding& binding, std::size_t rank);

// A process that has bound itself.
struct BoundHere {
  Rebound bound;                               // its binding is of all ranks
  std::size_t rank = 0;                        // which of them it is
};

// This process, `self`, as the rank that `wanted` or a launcher's variables say; where neither does, as the only one, with all
// its GPUs. Its memory policy is left alone: that of threads which run already cannot be changed.
BoundHere bind_this_process(RankSite& site, pid_t self, RankRequest wanted);

}  // namespace thole::app
