#include "plan/place/explain.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.hpp"

namespace thole::plan {

using model::Pick;
using model::Unit;

namespace {

std::string number(std::size_t n) {
  static constexpr const char* words[] = {"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
  return n < std::size(words) ? words[n] : std::to_string(n);
}

std::string place_text(const model::Machine& machine, const std::vector<Unit>& units, const std::vector<std::size_t>& chosen) {
  std::set<int> nodes;
  for (const std::size_t unit : chosen) {
    const auto node = units[unit].gpu_of(machine).numa;
    if (!node) return "";
    nodes.insert(*node);
  }
  std::vector<std::string> texts;
  for (const int node : nodes) texts.push_back(std::to_string(node));
  return (nodes.size() == 1 ? " on node " : " across nodes ") + join(texts, ",");
}

// The weakest link of the set, and whether all are alike.
std::string links_text(const Links& links, std::size_t size) {
  std::size_t a = 0, b = 1;
  bool alike = true;
  for (std::size_t x = 0; x < size; ++x)
    for (std::size_t y = x + 1; y < size; ++y) {
      alike = alike && links.name(x, y) == links.name(0, 1);
      if (links.score(x, y) < links.score(a, b)) a = x, b = y;
    }
  if (size == 2) return links.name(a, b) + " pair";
  return (alike ? "all joined by " : "weakest link ") + links.name(a, b);
}

// Units joined, directly or through others: the number of each one's group, by its first member.
template <class Joined>
std::vector<std::size_t> groups(std::size_t n, Joined joined) {
  std::vector<std::size_t> group(n);
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b)
      if (group[a] != group[b] && joined(a, b)) {
        const std::size_t from = std::max(group[a], group[b]), to = std::min(group[a], group[b]);
        std::replace(group.begin(), group.end(), from, to);
      }
  return group;
}

struct Whole {
  std::size_t groups = 0, free = 0;            // of two units or more, and less than all
  bool pairs = true;
};

Whole count_whole(const std::vector<std::size_t>& group, const std::vector<bool>& free) {
  Whole whole;
  for (std::size_t g = 0; g < group.size(); ++g) {
    std::size_t size = 0, left = 0;
    for (std::size_t i = g; i < group.size(); ++i)
      if (group[i] == g) ++size, left += free[i];
    if (size < 2 || size == group.size()) continue;
    ++whole.groups;
    whole.free += left == size;
    whole.pairs = whole.pairs && size == 2;
  }
  return whole;
}

// What others find: the whole pairs or groups of fast links, else the whole PCIe switches, else just how many.
std::string leaves_text(const model::Machine& machine, const std::vector<Unit>& units, const std::vector<Candidate>& candidates,
                        const std::vector<std::size_t>& chosen) {
  std::vector<std::size_t> all(units.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<bool> free(units.size());
  for (const Candidate& candidate : candidates) free[candidate.unit] = true;
  for (const std::size_t unit : chosen) free[unit] = false;
  const auto count = static_cast<std::size_t>(std::count(free.begin(), free.end(), true));
  if (count == 0) return "; leaves none free";
  const Links links(machine, units, all);
  const Whole fast = count_whole(groups(units.size(), [&](std::size_t a, std::size_t b) { return links.fast(a, b); }), free);
  if (fast.free > 0)
    return fmt::format("; leaves {} whole {}{} free", number(fast.free), fast.pairs ? "pair" : "group",
                       fast.free == 1 ? "" : "s");
  const Whole near =
      count_whole(groups(units.size(), [&](std::size_t a, std::size_t b) { return links.one_switch(a, b); }), free);
  const bool parts =
      std::any_of(units.begin(), units.end(), [&](const Unit& unit) { return unit.instance || unit.gpu_of(machine).part; });
  if (fast.groups == 0 && near.free > 0)
    return fmt::format("; leaves {} whole {}{} free", number(near.free), parts ? "GPU" : "switch",
                       near.free == 1 ? ""
                       : parts        ? "s"
                                      : "es");
  return fmt::format("; leaves {} free", number(count));
}

// Of one alone: whether its links to the other free ones set it apart from those that would have done as well.
std::string one_text(const model::Machine& machine, const std::vector<Unit>& units, const std::vector<Candidate>& candidates,
                     std::size_t chosen) {
  std::vector<std::size_t> free;
  for (const Candidate& candidate : candidates) free.push_back(candidate.unit);
  const Links links(machine, units, free);
  const auto row = [&](std::size_t i) {
    long sum = 0;
    for (std::size_t j = 0; j < free.size(); ++j)
      if (j != i) sum += links.score(i, j);
    return sum;
  };
  const auto at = static_cast<std::size_t>(std::find(free.begin(), free.end(), chosen) - free.begin());
  const long own = row(at);
  bool more = false;
  for (std::size_t i = 0; i < free.size(); ++i)
    more = more || (candidates[i].eligible && candidates[i].last_resort == candidates[at].last_resort && row(i) > own);
  return more ? "the least linked to the other free ones" : "first of equals";
}

std::string reason(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                   const std::vector<Candidate>& candidates, const Placement& placement, const Links& links) {
  const std::vector<std::size_t>& chosen = placement.units;
  const auto eligible = static_cast<std::size_t>(
      std::count_if(candidates.begin(), candidates.end(), [](const Candidate& candidate) { return candidate.eligible; }));
  const std::string near = place_text(snapshot.machine, units, chosen);
  if (eligible == chosen.size()) {
    const bool others_too = eligible < candidates.size();  // free as well, but not for this request
    if (eligible < 2) return (others_too ? "the only free one that would do" : "the only free one") + near;
    return (others_too ? "all the free ones that would do, " : "all that are free, ") + links_text(links, chosen.size()) + near;
  }
  if (!request.order.empty()) return "first in your order" + near;
  switch (request.pick) {
    case Pick::pack: break;
    case Pick::first: return "first in PCI order" + near;
    case Pick::last: return "last in PCI order" + near;
    case Pick::random: return fmt::format("at random, seed {}", request.seed) + near;
    case Pick::load: return "least load" + near;
    case Pick::memory: return "least memory in use" + near;
  }
  const std::string leaves = leaves_text(snapshot.machine, units, candidates, chosen);
  if (chosen.size() == 1) return one_text(snapshot.machine, units, candidates, chosen.front()) + near + leaves;
  if (request.shape == model::Shape::independent) return "independent, few links lost to others" + near + leaves;
  return links_text(links, chosen.size()) + near + leaves;
}

}  // namespace

std::string explain(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                    const std::vector<Candidate>& candidates, const Placement& placement, const Links& links) {
  std::vector<std::string> labels;
  for (const std::size_t unit : placement.units) labels.push_back(units[unit].label);
  std::string text = join(labels, ",") + ": " + reason(request, snapshot, units, candidates, placement, links);
  const auto last_resort = std::count_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.last_resort && std::binary_search(placement.units.begin(), placement.units.end(), candidate.unit);
  });
  if (last_resort == 1) text += "; one drives a display or has graphics";
  if (last_resort > 1) text += "; some drive displays or have graphics";
  if (!placement.exact) text += "; not proven best, there are too many sets to compare";
  return text;
}

}  // namespace thole::plan
