// core:N: so many cores for each rank.
#pragma once

#include <vector>

#include "plan/bind/shares.hpp"

namespace thole::plan {

// What each rank gets of each of its GPUs, `count` cores in all; `own`: the division of the machine, by GPU number. A rank
// first takes what its GPU has of its own and no rank before it took. What then lacks is lent, and said: of the cores that
// fewest ranks of this plan have the nearest, so that ranks share a core only when every core is in use.
std::vector<std::vector<Share>> counted(const model::Machine& machine, const std::vector<std::vector<std::size_t>>& ranks,
                                        const std::vector<Share>& own, std::size_t count, const Cores& cores);

}  // namespace thole::plan
