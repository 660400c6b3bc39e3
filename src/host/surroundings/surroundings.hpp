// Reads model::Surroundings from the file trees; no vendor library, nothing that can hang.
#pragma once

#include <string>

#include "model/surroundings.hpp"

namespace thole::host {

// `root` prefixes every path. `state_dir` is the directory in use, "" when there is none; `user`: who we are.
model::Surroundings read_surroundings(const std::string& root, const std::string& state_dir, const std::string& user);

}  // namespace thole::host
