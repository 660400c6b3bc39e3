// Which file a path leads to for another process: in a mount namespace, or below a root, of its own.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.hpp"
#include "model/lane_record.hpp"

namespace thole::host {

struct FileFound {
  model::FileIdentity file{};                    // none: there is no such file
  bool told = true;                              // whether there is one
  bool operator==(const FileFound&) const = default;
};

// None where it cannot be told.
model::FileIdentity identity_of_file(const Fd& file);

// A link leads to where it does from the root of that process, not ours (Linux 5.6).
FileFound file_within(pid_t process, const std::string& path);
FileFound file_here(const std::string& path);

}  // namespace thole::host
