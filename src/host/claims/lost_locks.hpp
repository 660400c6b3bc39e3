// Claims whose node was deleted by hand: the kernel still knows their locks, and root can see who has them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace thole::host {

struct LostLock {
  std::string node;  // the name it had
  pid_t pid = 0;
};

// Looks through /proc for descriptors of FIFOs of `directory` that have a lock and no name there any more. What `thole init`
// itself has deleted is no claim (NodeMaker::give_up). Root sees all processes of its pid namespace, others see their own.
std::vector<LostLock> lost_locks(const std::string& directory);

}  // namespace thole::host
