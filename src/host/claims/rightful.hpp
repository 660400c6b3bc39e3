// Whose is a node that was closed to newcomers while it was locked (NodeMaker::renew_fifo)? Whoever had it then keeps it. But
// once it is let go, anybody who has it open from before could lock it, member or not: then it is made anew under him.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "host/claims/init_record.hpp"

namespace thole::host {

struct Lockers {
  std::vector<InitRecord::Held> rightful;
  std::string other;      // names one who is none of these, "" when there is none
};

// Who has this node locked. `closed_to`: its group, where it was closed to all others before; then those recorded and the
// members are its rightful holders, else everybody is. `owner`: of the directory.
Lockers lockers_by_right(const std::string& node, int fd, std::optional<gid_t> closed_to, uid_t owner,
                         const InitRecord& record);

}  // namespace thole::host
