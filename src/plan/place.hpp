// Which of the free units to take, and why these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"

namespace thole::plan {

struct Candidate {
  std::size_t unit = 0;                        // index into units
  bool last_resort = false;                    // drives a display or has graphics processes: comes last
};

struct Placement {
  std::vector<std::size_t> units;              // chosen, in machine order
  std::string explain;                         // "0,1: NV12 pair on node 0; leaves two whole pairs free"
};

// The best `request.gpus` of the candidates, or nothing when there are fewer. The answer does not depend on their order.
// pack: the set with the strongest weakest link, then least span of NUMA nodes, then what is left for others, then PCI order.
std::optional<Placement> place(const model::Request& request, const model::Snapshot& snapshot,
                               const std::vector<model::Unit>& units, const std::vector<Candidate>& candidates);

}  // namespace thole::plan
