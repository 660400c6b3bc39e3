// Claims in the directories that are used while there is none of root's, as `thole init` looks for them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "host/claims/guard.hpp"
#include "host/state_dir.hpp"

namespace thole::host {

// Who claims one of these units in a fallback directory: a sentence that names him, "" when nobody does.
std::string claimed_in_fallback(const StatePaths& paths, const std::vector<std::string>& units, std::string& directory,
                                std::chrono::nanoseconds limit = for_strangers);

}  // namespace thole::host
