// Which processes keep the locks that one look is about, by their descriptors. Anybody can have hundreds of thousands of
// descriptors: those of a process are gone through once, whatever the number of its locks, and for some milliseconds.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>

#include "host/claims/allowance.hpp"
#include "host/process/open_files.hpp"

namespace thole::host {

class KeeperLook {
 public:
  explicit KeeperLook(std::set<FileNumber> locked);

  // Unknown where its descriptors are not ours to see, or too many.
  std::optional<bool> keeps(pid_t pid, int fd);

 private:
  std::set<FileNumber> locked_;
  std::map<pid_t, KeptLocks> known_;
  Allowance all_;
};

}  // namespace thole::host
