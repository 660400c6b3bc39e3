// `thole bind`: binds a rank that another launcher starts, or a process that runs, next to its GPUs. Claims nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/binding.hpp"
#include "port/claim_store.hpp"

namespace thole::app {

// What the binding of processes that others started works on.
struct RankSite {
  Observer& observer;
  BindSite bind;
  const plan::Environment& environment;        // of the caller: the launcher's variables, the outer masks
  Millis patience{10'000};                     // for one look at the driver
  std::function<port::ClaimStore*()> claims;   // of the machine; null: there are none. Asked inside a claim only
};

constexpr unsigned most_ranks = 65'536;        // of one machine: more is a slip, and each costs a plan

struct RankRequest {
  model::BindOptions options;
  std::vector<std::string> on;                 // GPUs by word; empty = those the environment allots, in its order
  unsigned gpus_per_rank = 1;
  std::optional<unsigned> local_rank, ranks;   // what the command line says, else the launcher's variables
};

struct Rank {
  Binding binding;                             // of all ranks of this machine: each makes the same plan from the same inputs
  std::size_t rank = 0;                        // which of them this process is
  std::string named_by;                        // "LOCAL_RANK"; "" when the command line says it
};

// Throws Error(usage) where nobody says which rank this is, where there is no GPU, and as plan_binding does.
Rank plan_rank(RankSite& site, const RankRequest& wanted);

// For what is about to begin: throws DriverTrouble where root has taken a GPU of this rank back from a claim around us.
void refuse_taken_around(const RankSite& site, const Rank& rank);

// Replaces this process by the command, bound; returns only by throwing. `told` as in put_into.
void become_rank(port::Processes& processes, const Rank& rank, const std::vector<std::string>& argv, OnReadBack told);

// A process that runs. Its GPUs: `on`, else those that the driver sees it use, else those its own variables allot.
struct Rebound {
  Binding binding;                             // one rank
  std::string gpus_by;                         // how its GPUs were found: "--on", "the driver", "its CUDA_VISIBLE_DEVICES"
  port::BoundProcess process;                  // as it is now
  std::vector<std::string> differences;        // from the plan; under strict an Error(unavailable) instead
};
Rebound bind_process(RankSite& site, pid_t pid, const model::BindOptions& options, const std::vector<std::string>& on);

}  // namespace thole::app
