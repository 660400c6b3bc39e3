// What a set of candidates adds up to, kept while members come and go. Internal to the searches of packing.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "plan/place/packing.hpp"

namespace thole::plan {

struct Totals {
  long last_resort = 0, instances = 0, inside = 0, weakest = std::numeric_limits<long>::max(), rows = 0;
  long nodes = 0, packages = 0, broken = 0;
};

// Smaller is better.
inline long value(Criterion criterion, const Totals& totals) {
  switch (criterion) {
    case Criterion::last_resort: return totals.last_resort;
    case Criterion::instances: return totals.instances;
    case Criterion::weakest: return -totals.weakest;
    case Criterion::inside: return -totals.inside;
    case Criterion::nodes: return totals.nodes;
    case Criterion::packages: return totals.packages;
    case Criterion::left: return totals.rows - totals.inside;  // the links that go with the set
    case Criterion::broken: break;
  }
  return totals.broken;
}

// How many members are on each node, in each package and in each group.
class Occupation {
 public:
  explicit Occupation(const Pool& pool)
      : pool_(pool), on_node_(pool.size() + 1), on_package_(pool.size() + 1), taken_(pool.groups.size()) {}

  // The totals with candidate i beside the members; `gain`: what its links to them add up to, `least`: the weakest of those.
  Totals with(const Totals& totals, std::size_t i, long gain, long least) const {
    const Traits& traits = pool_.traits[i];
    const Group& group = pool_.groups[traits.group];
    const std::size_t taken = taken_[traits.group];
    Totals next = totals;
    next.last_resort += traits.last_resort;
    next.instances += traits.instance;
    next.inside += gain;
    next.weakest = std::min(next.weakest, least);
    next.rows += traits.row;
    next.nodes += on_node_[static_cast<std::size_t>(traits.node)] == 0;
    next.packages += on_package_[static_cast<std::size_t>(traits.package)] == 0;
    next.broken += is_broken(group, taken + 1) - is_broken(group, taken);
    return next;
  }

  void enter(std::size_t i) { count(i, 1); }
  void leave(std::size_t i) { count(i, -1); }

 private:
  static bool is_broken(const Group& group, std::size_t taken) {
    const std::size_t left = group.free - taken;
    return left > 0 && left < group.total;
  }

  void count(std::size_t i, int by) {
    const Traits& traits = pool_.traits[i];
    on_node_[static_cast<std::size_t>(traits.node)] += by;
    on_package_[static_cast<std::size_t>(traits.package)] += by;
    taken_[traits.group] += static_cast<std::size_t>(by);
  }

  const Pool& pool_;
  std::vector<int> on_node_, on_package_;
  std::vector<std::size_t> taken_;             // by group
};

}  // namespace thole::plan
