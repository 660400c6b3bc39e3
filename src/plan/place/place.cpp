#include "plan/place/place.hpp"

#include <algorithm>
#include <numeric>

#include "plan/place/explain.hpp"
#include "plan/place/packing.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

using model::Pick;
using model::Unit;

std::vector<std::size_t> preferences(const model::Request& request, const model::Snapshot& snapshot,
                                     const std::vector<Unit>& units) {
  std::vector<std::size_t> place(units.size(), units.size());
  std::size_t next = 0;
  for (const std::string& word : request.order)
    for (const std::size_t unit : resolve(word, snapshot, units))
      if (place[unit] == units.size()) place[unit] = next++;
  return place;
}

namespace {

// The other orders are a key for each candidate.
Members in_order(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                 const std::vector<Candidate>& candidates) {
  const std::vector<std::size_t> preferred = preferences(request, snapshot, units);
  Members order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto scrambled = [&](std::size_t i) {  // splitmix64 of seed and place: the same seed gives the same choice
    std::uint64_t x = request.seed + 0x9e3779b97f4a7c15u * (candidates[i].unit + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((x ^ (x >> 31)) >> 12);
  };
  const auto key = [&](std::size_t i) -> double {
    constexpr double unknown = 1e18;           // what cannot be read is not known to be little
    const Unit& unit = units[candidates[i].unit];
    const model::Use& use = unit.use_of(snapshot.machine);
    if (!request.order.empty()) return 0;
    switch (request.pick) {
      case Pick::last: return -static_cast<double>(candidates[i].unit);
      case Pick::random: return scrambled(i);
      case Pick::load: return use.utilization_percent.value_or(unknown);
      case Pick::memory: {
        const auto total = unit.memory_mib_of(snapshot.machine);
        if (!use.memory_used_mib || !total || *total == 0) return unknown;
        return static_cast<double>(*use.memory_used_mib) / static_cast<double>(*total);
      }
      default: return 0;
    }
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto rank = [&](std::size_t i) {
      return std::tuple(!candidates[i].must, preferred[candidates[i].unit], candidates[i].last_resort,
                        units[candidates[i].unit].instance.has_value(), key(i));
    };
    return rank(a) < rank(b);
  });
  order.resize(request.gpus);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

std::optional<Placement> place(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                               const std::vector<Candidate>& given) {
  std::vector<Candidate> candidates = given;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.unit < b.unit; });
  std::vector<Candidate> eligible;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(eligible),
               [](const Candidate& c) { return c.eligible; });
  const auto musts = static_cast<std::size_t>(
      std::count_if(eligible.begin(), eligible.end(), [](const Candidate& c) { return c.must; }));
  if (eligible.size() < request.gpus || musts > request.gpus) return std::nullopt;
  Placement placement;
  if (request.gpus == 0) return placement;

  Members set;
  if (request.pick == Pick::pack && request.order.empty() && eligible.size() > request.gpus) {
    const Pool pool = pool_of(snapshot, units, candidates);
    const std::vector<Criterion> order = criteria(request.shape, pool.links.any_fast());
    placement.exact = few_enough_to_compare(eligible.size() - musts, request.gpus - musts);
    set = placement.exact ? best_of_all(pool, order, request.gpus) : best_grown(pool, order, request.gpus);
  } else {
    set = in_order(request, snapshot, units, eligible);
  }
  for (const std::size_t i : set) placement.units.push_back(eligible[i].unit);
  const Links links(snapshot.machine, units, placement.units);
  placement.score = links.sum();
  placement.explain = explain(request, snapshot, units, candidates, placement, links);
  return placement;
}

}  // namespace thole::plan
