// Whether a file that is open still has its name: somebody may have removed it, or put another in its place.
#pragma once

#include <string>

namespace thole {

bool is_at(const std::string& path, int fd);

}  // namespace thole
