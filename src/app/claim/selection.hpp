// The units that would do for a request: of the machine, or of the claim that it is made within.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/show/overview.hpp"
#include "plan/place/select.hpp"

namespace thole::app {

std::optional<Allotment> allotted(const Site& site, const OuterClaim* within);    // absent when no mask hides anything

// What the outer allotment leaves (as it was, where that is given); inside a claim (`within`) of that claim's. Throws
// NeverPossible when that is too little.
plan::Selection select(const Site& site, const model::Request& request, const OuterClaim* within,
                       const std::optional<Allotment>& allotted = {});

// The same request by names that last: an index means another GPU once one before it has left the driver's list.
model::Request by_lasting_names(model::Request request, const Site& site);
std::vector<std::string> those_there(std::vector<std::string> names, const Site& site);   // that name a unit of the last look

// The same request by those of its names; of --on the whole where none is left.
model::Request of_those_there(model::Request request, const Site& site);

// Whether the masks of this process are those of the claim that THOLE_CLAIM names, alive or not.
bool shows_a_claim_alone(const plan::Environment& environment, const std::vector<model::Unit>& units, const plan::Outer& outer);

// Of all that a look has shown, whatever masks this process has: for what is started elsewhere. Throws NeverPossible.
plan::Selection select_of_machine(const Overview& overview, const model::Request& request);

// Those of a selection that can be claimed, ascending; refuses at once what sickness makes impossible (DriverTrouble), naming
// the sick; and what root has taken back from the claim around. What becomes sick while somebody waits may be well again: that
// is no reason to end his wait.
std::vector<std::size_t> eligible_units(const Site& site, const model::Request& request, plan::Selection selection,
                                        const OuterClaim* within);

// Whether too few are left for it in the claim around for good: what root has taken back does not come again to that, while
// what has left the driver's list may.
bool is_lost(const Site& site, const plan::Selection& selection, const OuterClaim& within);

// The GPUs of whom the driver has not answered, where the request fails only for that; "" otherwise.
std::string late_ones(const Site& site, const model::Request& request, const plan::Selection& selection);

// Units that belong to the claim around this one and that it uses: what is seen on them bars nobody who claims within.
struct InUse {
  bool by_us = false;
  std::optional<std::uint64_t> share_mib{};     // what the claim around has of each
};

// A GPU that the claim around has in use itself, or others beside it in other shares: what is seen there bars nobody.
InUse in_use(const OuterClaim* around, const model::Request& request);

}  // namespace thole::app
