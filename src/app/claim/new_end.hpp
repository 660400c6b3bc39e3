// The declared end of a claim that runs: a later one may break the promise with which others let the claim go before them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/time.hpp"
#include "plan/turn/put_off.hpp"

namespace thole::app {

// What is needed of a claim for that, while its locks are another's.
struct EndOfClaim {
  std::string id;
  std::vector<std::string> keys;
  std::vector<model::InLine> passed;             // Acquired::passed
};
EndOfClaim end_of_claim(const Acquired& acquired);

// Whose promised start the claim would move if it ended then; nobody where the line cannot be seen now.
std::optional<plan::PutOff> put_off_by(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, WallTime until);

// Records a new end; false when it cannot be recorded. Throws Error(unavailable) where that would put somebody off.
bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until);

}  // namespace thole::app
