// The door of a claim that a process of ours keeps: by it release and extend reach whoever runs something in the claim.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/claim/acquire.hpp"
#include "base/time.hpp"
#include "port/claim_control.hpp"

namespace thole::app {

// Opens it where the claims' directories are: `directory` of the spec is not set yet. Throws Error(unavailable).
using DoorMaker = std::function<std::unique_ptr<port::ClaimDoor>(port::DoorSpec)>;

// Null for a claim that is not ours alone, or has no GPU, or where no door can be made (`caution` says so: the claim works
// without one). `acquired` outlives the door. `is_ending`: too late for a new end; may be empty. `amend`: records an end that
// is asked for; empty: what is asked for is what others are told.
std::unique_ptr<port::ClaimDoor> open_door(const DoorMaker& make, const Site& site, const Acquired& acquired,
                                           std::optional<WallTime> until,
                                           const std::function<void(const std::string&)>& caution,
                                           std::function<bool()> is_ending = {},
                                           std::function<bool(std::optional<WallTime>)> amend = {});

// The claim's end as others are told it: in its note, and at the door, where there is one.
void declare_end(const Site& site, const Acquired& acquired, port::ClaimDoor* door, std::optional<WallTime> until);

}  // namespace thole::app
