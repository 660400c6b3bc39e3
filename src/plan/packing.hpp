// The search for the best set of units, for place(). Internal to it.
//
// How this works. Sets of candidates are compared by a list of numbers (Merit); the first difference decides. Up to 16
// candidates every set of the size is looked at; above, sets are grown from several starts and improved by exchanges. What is
// left for others needs no search: the links among the rest are all links, less those that touch the set.
#pragma once

#include <array>
#include <vector>

#include "plan/links.hpp"
#include "plan/place.hpp"

namespace thole::plan {

using Members = std::vector<std::size_t>;      // positions among the candidates, ascending

// What a set is worth; smaller is better, compared from the first on.
using Merit = std::array<long, 8>;

class Packing {
 public:
  // `candidates` in PCI order; `size` of them are wanted.
  Packing(const model::Snapshot& snapshot, const std::vector<model::Unit>& units, const std::vector<Candidate>& candidates,
          std::size_t size);
  Members best();
  bool exact() const { return candidates_.size() <= most_exact; }   // best() is proven
  const Links& links() const { return links_; }

 private:
  static constexpr std::size_t most_exact = 16;
  struct Group { std::size_t total = 0, free = 0; };  // units of one GPU or one PCIe switch, and how many are candidates

  void find_groups(const model::Machine& machine, const std::vector<model::Unit>& units);
  Merit merit(const Members& set);
  Members by_exhaustion();
  Members by_growth();
  void improve(Members& set, Merit& value);

  const std::vector<Candidate>& candidates_;
  std::size_t size_;
  Links links_;
  bool any_fast_;
  long all_links_ = 0;                         // sum over all pairs of candidates
  std::vector<long> row_;                      // sum over a candidate's pairs
  std::vector<int> node_, package_;            // -1 unknown
  std::vector<bool> instance_;
  std::vector<std::size_t> group_;
  std::vector<Group> groups_;
  std::vector<std::size_t> taken_;             // per group, scratch of merit()
};

}  // namespace thole::plan
