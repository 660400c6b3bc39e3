// The locks of a claim around, where this process was started with them.
#pragma once

#include <string>
#include <vector>

namespace thole::host {

// Has this process the locks of these units in this state directory, from whoever has started it or by a claim of its own?
bool has_locks_of(const std::string& directory, const std::vector<std::string>& keys);

// Has a process that this one was started by, at whatever distance? Python hands no descriptors to what it starts.
bool started_by_who_has_locks_of(const std::string& directory, const std::vector<std::string>& keys);

}  // namespace thole::host
