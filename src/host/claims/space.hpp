// Is there space left in the system's directory, and who took it?
#pragma once

#include <string>

namespace thole::host {

// A sentence when the file system of this directory is nearly full, naming the user who has most in the directory; "" otherwise.
// Full, it costs notes (sharing, names) and order; exclusive claims go on.
std::string nearly_full(const std::string& directory);

}  // namespace thole::host
