// What this host calls itself; empty where it does not say.
#pragma once

#include <string>

namespace thole::host {

std::string host_name();

}  // namespace thole::host
