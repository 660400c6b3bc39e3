// Root takes units back (`thole init --take-back`) from under those who have claimed them: their own descriptors tell.
#pragma once

#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/find_claim.hpp"

namespace thole::app {

// "GPU 3 was taken back by root: others may have claimed it since".
std::string taken_back_text(const std::string& gpus);

// The same for each such unit of those that were chosen for a claim: root has given up the file that it has locked.
std::vector<std::string> taken_back(const port::Claim& claim, const std::vector<model::Unit>& units,
                                    const std::vector<std::size_t>& chosen);
std::vector<std::string> taken_back(const Acquired& acquired);

// The same where no note tells of the claim around this process: the locks that it has inherited tell. "" where none is of one
// of these units, or with no key of any.
std::string taken_back_around(const std::vector<std::string>& keys);

// For what is about to begin there: throws DriverTrouble, of these GPUs, or where one of this claim was taken.
[[noreturn]] void refuse_taken_back(const std::string& gpus);
void refuse_taken_back(const Acquired& acquired);

// The keys of those units of a claim of ours, asked from outside it, that root has taken back.
std::vector<std::string> taken_from(port::ClaimStore& machine, const KeptClaim& claim);

}  // namespace thole::app
