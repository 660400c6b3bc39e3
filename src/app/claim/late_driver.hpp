// A request made while the driver is late about GPUs that it needs: it stands in line for what is listed until the driver has
// answered. A driver that is late has not said that a GPU is sick.
#pragma once

#include <memory>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/wish.hpp"
#include "port/claim_store.hpp"

namespace thole::app {

// Until the wish is late no more: looks again, and makes the wish anew. Takes nothing meanwhile. Returns the ticket for
// what is wished then; null where it has none, since what it stood for was something else. Throws what wish_for throws, and
// Error(interrupted).
std::unique_ptr<port::Ticket> await_driver(Site& site, port::ClaimStore& store, const model::Request& asked,
                                           const AcquireOptions& options, const OuterClaim* within, Wish& wish);

}  // namespace thole::app
