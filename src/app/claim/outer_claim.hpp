// The claim we are inside of, if any: a smaller machine with a store of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/environment/told.hpp"
#include "plan/place/select.hpp"
#include "port/claim_store.hpp"

namespace thole::app {

struct OuterClaim {
  std::string id;                                // "outer" or "outer/inner/…": the deepest one that is alive
  std::vector<std::string> keys;                 // its units
  std::shared_ptr<port::ClaimStore> store;       // of what is claimed inside it
  std::shared_ptr<port::ClaimStore> claimed_in;  // where it was claimed itself; null: in the machine's
  std::optional<std::uint64_t> share_mib{};      // what it has of each unit's memory, where it or one around it is a sharer's
  std::vector<std::string> taken{};              // those that root has taken back, from it or from one around it

  bool has_lost(const std::string& key) const { return std::ranges::find(taken, key) != taken.end(); }
};

// Whether these variables are of a process that was started in a claim, of which nothing is known yet.
bool names_a_claim(const plan::Environment& environment);

// Follows THOLE_CLAIM from the machine's store inwards as far as notes of our own show each claim alive. A stale id is
// ignored: nothing is returned, and the caller claims from the machine like anybody else.
std::optional<OuterClaim> outer_claim(port::ClaimStore& machine, const plan::Environment& environment);

// All of them, the deepest first.
std::vector<OuterClaim> claims_around(port::ClaimStore& machine, const plan::Environment& environment);

// What the lists of this environment show of the claim that its variables tell of. No store is asked.
std::optional<plan::ToldGpus::Shown> shown_of_claim_around(const plan::Environment& environment);

}  // namespace thole::app
