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
  bool eligible = true;                        // false: free, but not for this request; only counts as what is left for others
  bool must = false;                           // has to be in the set
};

struct Placement {
  std::vector<std::size_t> units;              // chosen, in machine order
  long score = 0;                              // the sum of links inside the set, by the weights of links.hpp; 0 for one unit
  bool exact = true;                           // false: there were too many to compare all sets
  std::string explain;                         // "0,1: NV12 pair on node 0; leaves two whole pairs free"
};

// Each unit's place in `request.order`, by index into `units`; those that are not in it share the one behind all.
// Throws Error(usage) for a wrong word in it.
std::vector<std::size_t> preferences(const model::Request& request, const model::Snapshot& snapshot,
                                     const std::vector<model::Unit>& units);

// The best `request.gpus` of the eligible candidates, or nothing when there are fewer. The answer does not depend on their
// order. What must be in the set is, and counts among `request.gpus`. With `order`: the first of that list, then the others in
// PCI order. With pick pack: by the shape (collective: the strongest weakest link, then the largest sum; pairwise: the largest
// sum), what is left for others, the fewest NUMA nodes and packages, whole groups, PCI order; nodes and packages come first
// where no two have a fast link. Throws Error(usage) for a wrong word in `order`.
std::optional<Placement> place(const model::Request& request, const model::Snapshot& snapshot,
                               const std::vector<model::Unit>& units, const std::vector<Candidate>& candidates);

}  // namespace thole::plan
