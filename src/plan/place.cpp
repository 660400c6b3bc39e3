#include "plan/place.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "plan/packing.hpp"

namespace thole::plan {

using model::Pick;
using model::Unit;

namespace {

// The other orders are a key for each candidate.
Members in_order(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                 const std::vector<Candidate>& candidates) {
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
      return std::tuple(candidates[i].last_resort, units[candidates[i].unit].instance.has_value(), key(i));
    };
    return rank(a) < rank(b);
  });
  order.resize(request.gpus);
  std::sort(order.begin(), order.end());
  return order;
}

std::string nodes_of(const Members& set, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                     const std::vector<Candidate>& candidates) {
  std::vector<int> nodes;
  for (const std::size_t i : set) {
    const auto node = units[candidates[i].unit].gpu_of(snapshot.machine).numa;
    if (!node) return "";
    nodes.push_back(*node);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  if (nodes.size() == 1) return fmt::format("on NUMA node {}", nodes[0]);
  std::vector<std::string> texts;
  for (const int node : nodes) texts.push_back(std::to_string(node));
  return "across NUMA nodes " + join(texts, ",");
}

// The weakest link of the set, and whether all are alike.
std::string links_of(const Members& set, const Links& links) {
  std::size_t a = set[0], b = set[1];
  bool alike = true;
  for (std::size_t x = 0; x < set.size(); ++x)
    for (std::size_t y = x + 1; y < set.size(); ++y) {
      alike = alike && links.score(set[x], set[y]) == links.score(set[0], set[1]);
      if (links.score(set[x], set[y]) < links.score(a, b)) a = set[x], b = set[y];
    }
  if (set.size() == 2) return links.name(a, b) + " pair";
  return (alike ? "all joined by " : "weakest link ") + links.name(a, b);
}

std::string reason(const model::Request& request, const Members& set, const Packing* packing) {
  switch (request.pick) {
    case Pick::pack: break;
    case Pick::first: return "first in PCI order";
    case Pick::last: return "last in PCI order";
    case Pick::random: return fmt::format("at random, seed {}", request.seed);
    case Pick::load: return "least load";
    case Pick::memory: return "least memory in use";
  }
  if (set.size() >= 2) return links_of(set, packing->links());
  return packing->links().any_fast() ? "leaves the free GPUs the most links" : "first of equals in PCI order";
}

}  // namespace

std::optional<Placement> place(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                               const std::vector<Candidate>& given) {
  if (given.size() < request.gpus) return std::nullopt;
  Placement placement;
  if (request.gpus == 0) return placement;
  std::vector<Candidate> candidates = given;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.unit < b.unit; });

  std::optional<Packing> packing;
  Members set;
  if (request.pick == Pick::pack) {
    packing.emplace(snapshot, units, candidates, request.gpus);
    set = packing->best();
  } else {
    set = in_order(request, snapshot, units, candidates);
  }
  std::vector<std::string> labels;
  std::size_t last_resort = 0;
  for (const std::size_t i : set) {
    placement.units.push_back(candidates[i].unit);
    labels.push_back(units[candidates[i].unit].label);
    last_resort += candidates[i].last_resort;
  }
  placement.explain = join(labels, ",") + ": ";
  if (given.size() == request.gpus) placement.explain += given.size() == 1 ? "the only free one" : "all that are free";
  else placement.explain += reason(request, set, packing ? &*packing : nullptr);
  if (const std::string nodes = nodes_of(set, snapshot, units, candidates); !nodes.empty()) placement.explain += ", " + nodes;
  if (last_resort == 1) placement.explain += "; one drives a display or has graphics";
  if (last_resort > 1) placement.explain += "; some drive displays or have graphics";
  if (packing && !packing->exact()) placement.explain += fmt::format("; not proven best among {}", candidates.size());
  return placement;
}

}  // namespace thole::plan
