#pragma once

#include <vector>

namespace thole::host {

// What this process was given when it was started and its children would get from it in turn, but for 0 to 2. Of our own
// descriptors none lacks CLOEXEC.
std::vector<int> inherited_descriptors();

}  // namespace thole::host
