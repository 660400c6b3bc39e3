// What a rank's plan comes down to on this host: the masks to ask the kernel for, the variables to set; and afterwards, how
// what was given differs.
//
// The two may differ from the plan where the kernel or the caller has the say: memory policies that a container forbids, a
// memory node outside of the cpuset, a variable that the user has set. A simulated machine's CPUs are those of this host with
// the same numbers; the ones that this host lacks are left out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/bound.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

// What may be asked for here.
struct HostLimits {
  model::CpuSet cpus;                            // the mask we were started with
  std::vector<int> memory_nodes;                 // of our cpuset
  std::string no_memory_policy;                  // why there are none here; "" = there are
  bool simulated = false;                        // the plan is of another machine than this host
};

struct Effect {
  model::Binding binding;                        // to ask the kernel for
  std::map<std::string, std::string> set;        // variables
  std::vector<std::string> lacks;                // sentences: less is asked for than was planned; errors under strict
  std::vector<std::string> kept;                 // sentences: variables that the user has set otherwise
  model::CpuSet absent_cpus;                     // of the plan, which the host of a simulated machine does not have …
  std::vector<int> absent_nodes;                 // … likewise
};
Effect effect(const model::RankPlan& rank, const model::BindingPlan& plan, const HostLimits& host,
              const Environment& environment);

// How what was read back differs from what was asked for: sentences, none when all is as asked.
std::vector<std::string> differences(const model::Binding& asked, const model::Bound& bound);

}  // namespace thole::plan
