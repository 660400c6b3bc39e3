// Parts of paths.
#pragma once

#include <string>

namespace thole::host {

// The directory that a path lies in, by its text alone: "." for a name without a slash.
inline std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace thole::host
