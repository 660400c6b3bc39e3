// Whose is a node that was closed to newcomers while it was locked (NodeMaker::renew_fifo)? Whoever had it then keeps it. But
// once it is let go, anybody who has it open from before could lock it, member or not: then it is made anew under him.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "host/claims/init_record.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {

struct Lockers {
  std::vector<InitRecord::Held> rightful;
  std::string other;      // names one who is none of these, "" when there is none
};

// Every lock there is; none when they are too many to be read.
std::vector<KernelLock> all_locks();

// "gpu.X:1234", as the record names a node.
std::string recorded_name(const std::string& node, int fd);

// Who has this node locked. `closed_to`: its group, where it was closed to all others before, and the record tells who had it
// then: these and the members are its rightful holders. Else everybody is. `owner`: of the directory.
Lockers lockers_by_right(const std::string& node, int fd, const std::vector<KernelLock>& locks, std::optional<gid_t> closed_to,
                         uid_t owner, const InitRecord& record);

}  // namespace thole::host
