#include "plan/packing.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

namespace thole::plan {

using model::Machine;
using model::Unit;

namespace {

std::optional<int> package_of(const Machine& machine, const model::Gpu& gpu) {
  for (const model::Cpu& cpu : machine.cpus) {
    if (gpu.numa ? cpu.numa == gpu.numa : gpu.near_cpus.node && gpu.near_cpus.node->contains(cpu.id)) return cpu.package;
  }
  return std::nullopt;
}

// Small numbers for the places that occur; whatever is not known is one place.
class Numbering {
 public:
  int operator()(std::optional<int> place) {
    return numbers_.try_emplace(place.value_or(-1), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<int, int> numbers_;
};

// Instances of one GPU belong together, and so do GPUs behind one PCIe switch.
void find_groups(const Machine& machine, const std::vector<Unit>& units, const std::vector<std::size_t>& chosen, Pool& pool) {
  const std::size_t n = pool.size();
  for (Traits& traits : pool.traits) traits.group = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (pool.traits[i].group != n) continue;
    Group group;
    for (std::size_t j = i; j < n; ++j) {
      if (pool.traits[j].group != n || (j != i && !pool.links.one_switch(i, j))) continue;
      pool.traits[j].group = pool.groups.size();
      ++group.free;
    }
    group.total = group.free;
    if (pool.traits[i].instance) group.total = machine.gpus[units[chosen[i]].gpu].mig.size();
    pool.groups.push_back(group);
  }
}

// One set of candidates, as a bit mask in which the first in PCI order is the highest bit: among sets of one size the larger
// mask comes first in PCI order.
using Mask = std::uint32_t;

class Tables {
 public:
  Tables(const Pool& pool, const std::vector<Criterion>& order)
      : pool_(pool), order_(order), n_(pool.size()), entries_(Mask{1} << n_) {
    for (std::size_t i = 0; i < n_; ++i) {
      const Traits& traits = pool.traits[i];
      Entry& single = entries_[bit(i)];
      single.rows = static_cast<int>(traits.row);
      single.places = Mask{1} << traits.node | Mask{1} << (16 + traits.package);
      if (traits.last_resort) last_resort_ |= bit(i);
      if (traits.instance) instances_ |= bit(i);
    }
    groups_.resize(pool.groups.size());
    for (std::size_t i = 0; i < n_; ++i) groups_[pool.traits[i].group] |= bit(i);
    fill();
  }

  Members best(std::size_t size) {
    const Mask end = Mask{1} << n_;
    Mask set = (Mask{1} << size) - 1, best = set;
    std::vector<long> least;
    for (const Criterion criterion : order_) least.push_back(value(criterion, best));
    while (set < end) {
      if (at_least_as_good(set, least)) best = set;
      const Mask low = set & -set, up = set + low;  // the next larger number with as many bits
      set = up | (((set ^ up) / low) >> 2);
    }
    Members members;
    for (std::size_t i = 0; i < n_; ++i)
      if (best & bit(i)) members.push_back(i);
    return members;
  }

 private:
  struct Entry {
    int inside = 0, weakest = std::numeric_limits<int>::max(), rows = 0;
    Mask places = 0;                           // nodes in the lower half, packages in the upper
  };

  Mask bit(std::size_t i) const { return Mask{1} << (n_ - 1 - i); }

  // Every pair inside a set is inside the set without its lowest or without its second lowest member, but for these two.
  void fill() {
    std::vector<int> link(n_ * n_);
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < n_; ++j)
        if (i != j) link[(n_ - 1 - i) * n_ + n_ - 1 - j] = pool_.links.score(i, j);
    for (Mask set = 3; set < entries_.size(); ++set) {
      const Mask low = set & -set, rest = set ^ low, second = rest & -rest;
      if (rest == 0) continue;
      const Entry &without_low = entries_[rest], &without_second = entries_[set ^ second],
                  &without_both = entries_[rest ^ second];
      const int between =
          link[static_cast<std::size_t>(std::countr_zero(low)) * n_ + static_cast<std::size_t>(std::countr_zero(second))];
      Entry& entry = entries_[set];
      entry.inside = without_low.inside + without_second.inside - without_both.inside + between;
      entry.weakest = std::min({without_low.weakest, without_second.weakest, between});
      entry.rows = without_low.rows + entries_[low].rows;
      entry.places = without_low.places | entries_[low].places;
    }
  }

  long broken(Mask set) const {
    long count = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::size_t left = pool_.groups[g].free - static_cast<std::size_t>(std::popcount(groups_[g] & set));
      count += left > 0 && left < pool_.groups[g].total;
    }
    return count;
  }

  long value(Criterion criterion, Mask set) const {
    const Entry& entry = entries_[set];
    switch (criterion) {
      case Criterion::last_resort: return std::popcount(set & last_resort_);
      case Criterion::instances: return std::popcount(set & instances_);
      case Criterion::weakest: return -entry.weakest;
      case Criterion::inside: return -entry.inside;
      case Criterion::nodes: return std::popcount(entry.places & 0xffff);
      case Criterion::packages: return std::popcount(entry.places >> 16);
      case Criterion::left: return entry.rows - entry.inside;  // the links that go with the set
      case Criterion::broken: break;
    }
    return broken(set);
  }

  bool at_least_as_good(Mask set, std::vector<long>& least) const {
    for (std::size_t c = 0; c < order_.size(); ++c) {
      const long now = value(order_[c], set);
      if (now == least[c]) continue;
      if (now > least[c]) return false;
      least[c] = now;
      while (++c < order_.size()) least[c] = value(order_[c], set);
    }
    return true;
  }

  const Pool& pool_;
  const std::vector<Criterion>& order_;
  std::size_t n_;
  std::vector<Entry> entries_;
  Mask last_resort_ = 0, instances_ = 0;
  std::vector<Mask> groups_;
};

}  // namespace

std::vector<Criterion> criteria(model::Shape shape, bool any_fast) {
  using enum Criterion;
  std::vector<Criterion> order{last_resort, instances};
  const auto say = [&](std::initializer_list<Criterion> more) { order.insert(order.end(), more); };
  const bool links_count = shape != model::Shape::independent;
  // Where no pair has a fast link, being near the same CPUs matters more than which PCIe bridge is between. Where one has, the
  // sums are enough: they hold the PCIe classes, and so the nodes.
  if (!any_fast || !links_count) say({nodes, packages});
  if (shape == model::Shape::collective) say({weakest});
  if (links_count) say({inside});
  say({left, broken});
  return order;
}

Pool pool_of(const model::Snapshot& snapshot, const std::vector<Unit>& units, const std::vector<Candidate>& candidates) {
  const Machine& machine = snapshot.machine;
  std::vector<std::size_t> chosen, others;
  for (const Candidate& candidate : candidates) (candidate.eligible ? chosen : others).push_back(candidate.unit);
  const std::size_t n = chosen.size();
  std::vector<std::size_t> everyone = chosen;
  everyone.insert(everyone.end(), others.begin(), others.end());
  const Links all(machine, units, everyone);
  Pool pool{others.empty() ? all : Links(machine, units, chosen), {}, {}};
  Numbering node, package;
  for (const Candidate& candidate : candidates) {
    if (!candidate.eligible) continue;
    const Unit& unit = units[candidate.unit];
    const model::Gpu& gpu = unit.gpu_of(machine);
    Traits& traits = pool.traits.emplace_back();
    traits.last_resort = candidate.last_resort;
    traits.instance = unit.instance.has_value();
    traits.node = node(gpu.numa);
    traits.package = package(package_of(machine, gpu));
    for (std::size_t j = 0; j < everyone.size(); ++j)
      if (j + 1 != pool.traits.size()) traits.row += all.score(pool.traits.size() - 1, j);
  }
  find_groups(machine, units, chosen, pool);
  for (std::size_t i = 0; i < n; ++i)          // the free ones of a group that this request cannot use
    for (std::size_t j = n; j < everyone.size(); ++j) {
      Group& group = pool.groups[pool.traits[i].group];
      const bool first_of_group = std::none_of(pool.traits.begin(), pool.traits.begin() + static_cast<std::ptrdiff_t>(i),
                                               [&](const Traits& other) { return other.group == pool.traits[i].group; });
      if (first_of_group && all.one_switch(i, j)) ++group.free, group.total += !pool.traits[i].instance;
    }
  return pool;
}

Members best_of_all(const Pool& pool, const std::vector<Criterion>& order, std::size_t size) {
  return Tables(pool, order).best(size);
}

}  // namespace thole::plan
