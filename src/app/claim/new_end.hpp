// The declared end of a claim that runs. One that went before others by that end puts none of them off by a later one, as long
// as they wait. What its end may be is asked anew each time: others may have been let past since, who count on it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/time.hpp"

namespace thole::app {

// What is needed of a claim for that, while its locks are another's.
struct EndOfClaim {
  std::string id;
  std::vector<std::string> keys;
  std::vector<model::InLine> passed;             // as in Acquired
  std::optional<WallTime> ends_by;
};
EndOfClaim end_of_claim(const Acquired& acquired);

// May what begins in it now end then, without putting them off? Then a later end is known to others by now.
bool may_end_at(port::ClaimStore& store, const Site& site, const Acquired& acquired, std::optional<WallTime> until);

// Records a new end; false when it cannot be recorded. Throws Error(unavailable) where that would put somebody off, or where
// nobody can tell (the claims are kept locked, and somebody waits whom this one has passed).
bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until);

// The same question where others are not told the end at present, since the claim stands still: of what both ends would be if
// it went on now. Records nothing.
void check_hidden_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> earlier,
                      std::optional<WallTime> until);

}  // namespace thole::app
