#include "plan/place/packing.hpp"

#include <algorithm>
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
    traits.must = candidate.must;
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

}  // namespace thole::plan
