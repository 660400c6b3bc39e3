#include "plan/packing.hpp"

#include <algorithm>
#include <numeric>

namespace thole::plan {

using model::Machine;
using model::Unit;

namespace {

std::vector<std::size_t> units_of(const std::vector<Candidate>& candidates) {
  std::vector<std::size_t> units;
  for (const Candidate& candidate : candidates) units.push_back(candidate.unit);
  return units;
}

std::optional<int> package_of(const Machine& machine, std::optional<int> node) {
  if (!node) return std::nullopt;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.numa == node) return cpu.package;
  return std::nullopt;
}

}  // namespace

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
    if (known == packages.end())
      known = packages.insert(packages.end(), {node_.back(), package_of(machine, node).value_or(-1)});
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

}  // namespace thole::plan
