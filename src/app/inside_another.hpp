// A claim that this process runs inside and cannot claim within: who waits for its GPUs waits for himself.
#pragma once

#include "app/acquire.hpp"

namespace thole::app {

// Throws Error(unavailable) where too few of these units, which would do, can come free before this process has ended. It names
// the claim that keeps them, whose it is, and why nothing is claimed within it.
void refuse_to_wait_for_oneself(const Site& site, const model::Request& request, const std::vector<std::size_t>& eligible);

}  // namespace thole::app
