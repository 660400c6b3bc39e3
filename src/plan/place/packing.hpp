// The search for the best set of units, for place(). Internal to it.
//
// How this works. Sets of candidates are compared by a list of criteria; the first that differs decides, and among equals the
// set that comes first in PCI order. While there are at most 200,000 sets of the size, every one is compared
// (packing_exact.cpp). Else (packing_large.cpp) sets are grown from several starts and improved by exchanges, where candidates
// that nothing tells apart count as one class.
//
// Where some pair has a fast link, what is left for others is asked, and not how far the CPUs are spread: else a third GPU
// would break up the pair next door rather than take a leftover beyond (tests/property/place_fragmentation_test.cpp). Of sets
// equal in their links, the PCIe classes in the sums prefer one node anyway.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/place/links.hpp"
#include "plan/place/place.hpp"

namespace thole::plan {

using Members = std::vector<std::size_t>;      // positions among the candidates, ascending

enum class Criterion {                         // all as numbers of which the smaller is better
  last_resort,                                 // how many drive displays
  instances,                                   // how many are instances where whole GPUs would do
  weakest,                                     // the weakest link inside
  inside,                                      // the sum of links inside
  nodes, packages,                             // how many their near CPUs are spread over
  left,                                        // the sum of links among the free GPUs that remain
  broken,                                      // boards, switches and partitioned GPUs that are neither whole nor used up
};

// The criteria in their order, for requests of this shape.
std::vector<Criterion> criteria(model::Shape shape, bool any_fast);

// What the search knows of each candidate.
struct Traits {
  bool last_resort = false, instance = false, must = false;
  int node = -1, package = -1;                 // small numbers from 0; candidates of unknown place share one
  std::size_t group = 0;                       // of its board, switch or partitioned GPU
  long row = 0;                                // the sum of its links to all that are free
};

struct Group { std::size_t total = 0, free = 0; };  // units in it, and how many are free

struct Pool {                                  // what there is to choose from
  Links links;                                 // between the candidates
  std::vector<Traits> traits;                  // by candidate
  std::vector<Group> groups;
  std::size_t size() const { return traits.size(); }
};

// `candidates` in PCI order; links to those that are not eligible count as what is left.
Pool pool_of(const model::Snapshot& snapshot, const std::vector<model::Unit>& units, const std::vector<Candidate>& candidates);

inline constexpr std::size_t most_sets = 200'000;   // 8 of 16 are 12,870 sets, 4 of 48 are 194,580

// Whether there are no more sets of `size` of so many candidates than are compared one by one.
bool few_enough_to_compare(std::size_t candidates, std::size_t size);

// The best set of `size` candidates, 1 or more and no more than there are, with all in it that must be (no more than `size`).
Members best_of_all(const Pool& pool, const std::vector<Criterion>& order, std::size_t size);
Members best_grown(const Pool& pool, const std::vector<Criterion>& order, std::size_t size);

}  // namespace thole::plan
