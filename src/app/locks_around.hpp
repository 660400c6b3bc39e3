// What runs inside a claim keeps that claim: a claim without a command is kept by a process that knows nothing of it, and that
// may be told to let go, or be killed, while a command that was started inside uses the GPUs.
#pragma once

#include <vector>

#include "app/acquire.hpp"
#include "app/outer_claim.hpp"

namespace thole::app {

// Copies of the locks of these claims; none of those that this process has anyway. Throws Error(unavailable) where one of the
// claims has ended, or where nobody can be asked for its locks: it lasts only as long as something else that runs in it.
std::vector<port::ClaimLocks> locks_around(const Site& site, const std::vector<OuterClaim>& around);

}  // namespace thole::app
