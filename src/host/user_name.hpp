// Whose a number is.
#pragma once

#include <sys/types.h>

#include <string>

namespace thole::host {

// The name of a user, or the number where there is none. May ask the network.
std::string user_name(uid_t uid);

}  // namespace thole::host
