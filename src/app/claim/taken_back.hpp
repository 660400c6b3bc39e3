// Root takes units back (`thole init --take-back`) from under those who have claimed them: their own descriptors tell.
#pragma once

#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/holding.hpp"

namespace thole::app {

// "GPU 3 was taken back by root: others may have claimed it since", for each such unit of the claim: the file that it has
// locked was deleted, and another has its name.
std::vector<std::string> taken_back(const Acquired& acquired);

// For what is about to begin there. Throws DriverTrouble.
void refuse_taken_back(const Acquired& acquired);

// Those units of a claim of ours, asked from outside it, that it does not hold any more: nobody does, or others are known to.
std::vector<std::string> taken_from(port::ClaimStore& store, const KeptClaim& claim);

}  // namespace thole::app
