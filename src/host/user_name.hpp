// Whose a number is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace thole::host {

// The name of a user, or the number where there is none. May ask the network.
std::string user_name(uid_t uid);

// And the reverse.
std::optional<uid_t> user_of_name(const std::string& name);

}  // namespace thole::host
