// What runs inside a claim keeps that claim: a claim without a command is kept by a process that knows nothing of it, and that
// may be told to let go, or be killed, while a command that was started inside uses the GPUs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"

namespace thole::app {

// `claim` keeps copies of the locks of these claims, for as long as what claims inside lasts: of this process's own, which it
// may close before; else of the claim's keeper; else of who has started this process, or of the claim's own process. Throws
// Error(unavailable) where one of the claims has ended, or its keeper has as is seen from here: it lasts only as long as
// something else that runs in it. Where only somebody who cannot be asked has them, `caution` is told, and the claim watches
// the units. It knows what root has taken back of them before.
void keep_around(const Site& site, const std::vector<OuterClaim>& around, port::Claim& claim,
                 const std::function<void(const std::string&)>& caution);

// For what runs nothing: `claim` knows what root has taken back of those around it, and keeps none of their locks.
void watch_around(const Site& site, const std::vector<OuterClaim>& around, port::Claim& claim);

}  // namespace thole::app
