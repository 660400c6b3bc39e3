// Units that the driver no longer names, and that somebody keeps locked all the same, as `thole init` tells root of them.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace thole::host {

// A sentence for each who has one of the `gone` units' nodes in this directory locked, and for each GPU that was `partitioned`
// under such a lock: the names that all of it had.
std::vector<std::string> told_of_gone(int directory, const std::set<std::string>& gone,
                                      const std::set<std::string>& partitioned);

}  // namespace thole::host
