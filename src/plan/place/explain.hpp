// The sentence that says why a placement is what it is.
#pragma once

#include <string>

#include "plan/place/packing.hpp"
#include "plan/place/place.hpp"

namespace thole::plan {

// "0,1: NV12 pair on node 0; leaves two whole pairs free". `links` are those between the placed units.
std::string explain(const model::Request& request, const model::Snapshot& snapshot, const std::vector<model::Unit>& units,
                    const std::vector<Candidate>& candidates, const Placement& placement, const Links& links);

}  // namespace thole::plan
