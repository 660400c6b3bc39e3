// How this works. `pack` compares sets of candidates by a list of numbers, the first difference decides (see Merit). Up to
// 16 candidates every set of the size is looked at; above, sets are grown from several starts and improved by exchanges,
// and the explanation says so. What is left for others needs no search: the links among the rest are all links, less
// those that touch the set.
#include "plan/place.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/text.hpp"
#include "plan/links.hpp"

namespace thole::plan {

using model::Machine;
using model::Pick;
using model::Unit;

namespace {

constexpr std::size_t most_exact = 16;
using Members = std::vector<std::size_t>;      // positions among the candidates, ascending

// What a set is worth; smaller is better, compared from the first on.
using Merit = std::array<long, 8>;

class Packing {
 public:
  Packing(const model::Snapshot& snapshot, const std::vector<Unit>& units, const std::vector<Candidate>& candidates, std::size_t size);
  Members best();
  bool exact() const { return candidates_.size() <= most_exact; }
  const Links& links() const { return links_; }

 private:
  struct Group { std::size_t total = 0, free = 0; };  // units of one GPU or one PCIe switch, and how many are candidates

  static std::vector<std::size_t> units_of(const std::vector<Candidate>& candidates) {
    std::vector<std::size_t> units;
    for (const Candidate& candidate : candidates) units.push_back(candidate.unit);
    return units;
  }
  void find_groups(const Machine& machine, const std::vector<Unit>& units);
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

std::optional<int> package_of(const Machine& machine, std::optional<int> node) {
  if (!node) return std::nullopt;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.numa == node) return cpu.package;
  return std::nullopt;
}

Packing::Packing(const model::Snapshot& snapshot, const std::vector<Unit>& units, const std::vector<Candidate>& candidates,
                 std::size_t size)
    : candidates_(candidates), size_(size), links_(snapshot.machine, units, units_of(candidates)), any_fast_(links_.any_fast()),
      row_(candidates.size()) {
  const Machine& machine = snapshot.machine;
  std::vector<std::pair<int, int>> packages;   // of the nodes met so far
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Unit& unit = units[candidates[i].unit];
    const auto node = unit.gpu_of(machine).numa;
    node_.push_back(node.value_or(-1));
    auto known = std::find_if(packages.begin(), packages.end(), [&](const auto& p) { return p.first == node_.back(); });
    if (known == packages.end()) known = packages.insert(packages.end(), {node_.back(), package_of(machine, node).value_or(-1)});
    package_.push_back(known->second);
    instance_.push_back(unit.instance.has_value());
    for (std::size_t j = 0; j < candidates.size(); ++j)
      if (j != i) row_[i] += links_.score(i, j);
    all_links_ += row_[i];
  }
  all_links_ /= 2;
  find_groups(machine, units);
}

// Instances of one GPU belong together, and so do GPUs behind one PCIe switch.
void Packing::find_groups(const Machine& machine, const std::vector<Unit>& units) {
  const std::size_t n = candidates_.size();
  group_.assign(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (group_[i] != n) continue;
    const std::size_t g = groups_.size();
    groups_.push_back({});
    for (std::size_t j = i; j < n; ++j) {
      if (group_[j] != n || (j != i && !links_.one_switch(i, j))) continue;
      group_[j] = g;
      ++groups_[g].free;
    }
    groups_[g].total = groups_[g].free;
    if (instance_[i]) {
      const std::size_t gpu = units[candidates_[i].unit].gpu;
      groups_[g].total = machine.gpus[gpu].mig.size();
    }
  }
  taken_.assign(groups_.size(), 0);
}

Merit Packing::merit(const Members& set) {
  long weakest = 1L << 30, inside = 0, rows = 0, last_resort = 0, instances = 0, nodes = 0, packages = 0, broken = 0;
  for (std::size_t x = 0; x < set.size(); ++x) {
    const std::size_t i = set[x];
    rows += row_[i];
    last_resort += candidates_[i].last_resort;
    instances += instance_[i];
    bool new_node = true, new_package = true;
    for (std::size_t y = 0; y < x; ++y) {
      const long score = links_.score(i, set[y]);
      weakest = std::min(weakest, score);
      inside += score;
      new_node = new_node && node_[i] != node_[set[y]];
      new_package = new_package && package_[i] != package_[set[y]];
    }
    nodes += new_node;
    packages += new_package;
    ++taken_[group_[i]];
  }
  if (set.size() < 2) weakest = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t left = groups_[g].free - taken_[g];
    broken += left > 0 && left < groups_[g].total;
    taken_[g] = 0;
  }
  const long left_for_others = all_links_ - rows + inside;
  // Where no pair has a fast link, being near the same CPUs matters more than which PCIe bridge is between.
  if (any_fast_) return {last_resort, instances, -weakest, -inside, nodes, packages, -left_for_others, broken};
  return {last_resort, instances, nodes, packages, -weakest, -inside, -left_for_others, broken};
}

Members Packing::by_exhaustion() {
  const std::size_t n = candidates_.size();
  Members set(size_), best;
  std::iota(set.begin(), set.end(), std::size_t{0});
  Merit least{};
  for (;;) {
    const Merit value = merit(set);
    if (best.empty() || value < least) {       // an equal one comes later in PCI order
      least = value;
      best = set;
    }
    std::size_t x = size_;
    while (x > 0 && set[x - 1] == n - size_ + x - 1) --x;
    if (x == 0) return best;
    ++set[x - 1];
    for (; x < size_; ++x) set[x] = set[x - 1] + 1;
  }
}

void Packing::improve(Members& set, Merit& value) {
  for (bool better = true; better;) {
    better = false;
    for (std::size_t x = 0; x < set.size(); ++x)
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (std::find(set.begin(), set.end(), i) != set.end()) continue;
        Members other = set;
        other[x] = i;
        if (const Merit now = merit(other); now < value) {
          set = std::move(other);
          value = now;
          better = true;
        }
      }
  }
}

Members Packing::by_growth() {
  constexpr std::size_t starts = 8;
  const std::size_t n = candidates_.size();
  Members best;
  Merit least{};
  for (std::size_t start = 0; start < std::min(starts, n); ++start) {
    Members set{start * n / std::min(starts, n)};
    Merit value = merit(set);
    while (set.size() < size_) {
      std::optional<Merit> step;
      std::size_t chosen = 0;
      set.push_back(0);
      for (std::size_t i = 0; i < n; ++i) {
        if (std::find(set.begin(), set.end() - 1, i) != set.end() - 1) continue;
        set.back() = i;
        if (const Merit now = merit(set); !step || now < *step) {
          step = now;
          chosen = i;
        }
      }
      set.back() = chosen;
      value = *step;
    }
    improve(set, value);
    std::sort(set.begin(), set.end());
    if (best.empty() || value < least || (value == least && set < best)) {
      least = value;
      best = set;
    }
  }
  return best;
}

Members Packing::best() {
  if (size_ == 0) return {};
  return exact() ? by_exhaustion() : by_growth();
}

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
        return use.memory_used_mib && total && *total ? static_cast<double>(*use.memory_used_mib) / static_cast<double>(*total) : unknown;
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
  if (last_resort > 0) placement.explain += last_resort == 1 ? "; one drives a display or has graphics" : "; some drive displays or have graphics";
  if (packing && !packing->exact()) placement.explain += fmt::format("; not proven best among {}", candidates.size());
  return placement;
}

}  // namespace thole::plan
