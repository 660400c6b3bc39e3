// A claim that this process runs inside and cannot claim within: who waits for its GPUs waits for himself.
#pragma once

#include <string>

#include "app/claim/acquire.hpp"
#include "app/show/overview.hpp"

namespace thole::app {

// Throws Error(unavailable) where too few of these units, which would do, can come free before this process has ended. It names
// the claim that keeps them, whose it is, and why nothing is claimed within it.
void refuse_to_wait_for_oneself(const Site& site, const model::Request& request, const std::vector<std::size_t>& eligible);

// The same of claims that the caller itself has made and ends itself, which it cannot do while it waits. `store`: where it
// claims.
void refuse_to_wait_for_own(const Site& site, port::ClaimStore& store, const model::Request& request,
                            const std::vector<std::size_t>& eligible, const std::vector<std::string>& own);

// The claim of ours that this process runs inside, by THOLE_CLAIM, and that has so many of the GPUs for a request of the queue
// that no job of it starts before that ends; "" where there is none. A job claims from the machine, also from inside.
std::string claim_that_keeps_from(const Overview& overview, const plan::Environment& environment,
                                  const model::Request& request);

}  // namespace thole::app
