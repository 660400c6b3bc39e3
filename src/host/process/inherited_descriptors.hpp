#pragma once

#include <vector>

namespace thole::host {

// All that this process has open, but for 0 to 2.
std::vector<int> open_descriptors();

// What this process was given when it was started and its children would get from it in turn, but for 0 to 2. Of our own
// descriptors none lacks CLOEXEC.
std::vector<int> inherited_descriptors();

// For a child process that may outlive its caller: it keeps none of these open, nor 0 to 2, nor the working directory.
void leave_caller();

}  // namespace thole::host
