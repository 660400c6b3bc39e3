// What an acquisition, and its preview, make of a request before it is entered.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"

namespace thole::app {

// Does this go without a lock, by the one of the claim around? Sharers' figures must be summed up, so they take berths.
bool reuses(const OuterClaim* around, const model::Request& request);

// The whole of the outer claim, without a lock of our own: its holder holds.
Acquired reuse(const Site& site, const OuterClaim& outer, std::vector<std::size_t> units);

std::vector<std::string> keys_of(const Site& site, const std::vector<std::size_t>& units);

port::Entry entry_for(const model::Request& request, const AcquireOptions& options, std::vector<std::string> keys);

// Puts them as the program is to number them: as the request says, else as the claim around it does, else in machine order.
std::vector<std::size_t> numbered(const Site& site, model::Request request, bool inside, std::vector<std::size_t> chosen);

}  // namespace thole::app
