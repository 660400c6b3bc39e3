// The claims and the line as the store tells everybody of them, in the terms of the rule: what is promised by it is what the
// rule promises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/claim.hpp"
#include "model/machine.hpp"
#include "model/queue_view.hpp"
#include "model/unit.hpp"
#include "plan/place/free.hpp"
#include "plan/turn/turn.hpp"
#include "port/claim_store.hpp"

namespace thole::app {

// What the rule is to know of a unit, by how it looks to a request that asks for nothing but a GPU (judge). What somebody has
// claimed can be used once it is released, whoever is seen on it now; memory that is in use beside sharers is not told here.
plan::SlotState slot_state(const model::Unit& unit, const model::Machine& machine, const plan::Verdict& seen, bool is_claimed);

// A process on a claimed unit is taken for a holder's when it runs as his user, or when nobody can say whose it is.
bool is_of_a_holder(const model::GpuProcess& process, const std::set<std::string>& holders);
std::vector<pid_t> pids_of_holders(const model::Use& use, const std::set<std::string>& holders);
std::set<std::string> users_of(const std::vector<model::Holding>& holdings);

// What processes that may be anybody's use beyond what the holders have all asked for, each with a context: somebody else's.
std::uint64_t beyond_their_shares(const model::Use& use, const std::vector<std::optional<std::uint64_t>>& asked_mib);

// The same for a unit with these holders, with the memory that is in use beside them.
plan::SlotState slot_state(const model::Unit& unit, const model::Snapshot& snapshot, const model::FreePolicy& policy,
                           const std::vector<model::Holding>& holdings);

// A claim of all of a GPU that was partitioned since is one of each of its instances: nobody can have them as long.
std::vector<model::Holding> by_units(std::vector<model::Holding> holdings, const std::vector<model::Unit>& units,
                                     const model::Machine& machine);

// These instances, by key, with why they are not to be had. No look at the claims where nothing was partitioned
// since the store was made.
std::map<std::string, std::string> parts_of_claimed(const std::vector<model::Unit>& units, const model::Machine& machine,
                                                    port::ClaimStore& store);

struct LineAsTold {
  model::QueueView view;
  std::vector<plan::SlotState> states;

  // Units first.
  void add(const std::string& key, const std::vector<model::Holding>& holdings, plan::SlotState state, WallTime now);
  void add(const model::Waiting& waiting);
};

}  // namespace thole::app
