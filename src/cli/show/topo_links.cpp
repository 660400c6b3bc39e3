// How the GPUs are joined, in few words.
//
// How this works: the joins of one kind are sorted by strength (links of a pair, or PCIe distance). For each strength the
// GPUs fall into groups joined at least that well. On regular machines each group is complete (every two of it are joined so),
// and naming the groups says all: "0,1 2,3: 12 links". Where one is not, as in the DGX-1's cube mesh, a table does.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/text.hpp"
#include "cli/show/topo.hpp"

namespace thole::cli {

namespace {

using app::Join;
using app::Joins;
using model::LinkKind;

constexpr int most_nvlinks = 18;  // of any GPU up to Blackwell (B200): NVIDIA's data sheets

// Strength of a pair by some measure; 0 = not joined. Higher is better.
using Strength = std::function<int(const Join&)>;

struct Step {
  int strength = 0;
  std::vector<model::CpuSet> groups;  // of two GPUs or more, joined at least so
  bool everybody = false;             // one group of all GPUs
};

struct Grouping {
  std::vector<Step> steps;  // best first; a step that adds nothing is left out
  bool complete = true;     // naming the groups says all
  bool empty() const { return steps.empty(); }
};

std::vector<std::size_t> components(const Joins& joins, std::size_t gpus, const Strength& strength, int least) {
  std::vector<std::size_t> root(gpus);
  std::iota(root.begin(), root.end(), 0);
  for (std::size_t a = 0; a < gpus; ++a)
    for (std::size_t b = 0; b < gpus; ++b)
      if (a != b && root[a] != root[b] && strength(joins.between(a, b)) >= least)
        std::replace(root.begin(), root.end(), std::max(root[a], root[b]), std::min(root[a], root[b]));
  return root;
}

Grouping grouping(const Joins& joins, std::size_t gpus, const Strength& strength) {
  std::vector<int> levels;
  for (std::size_t a = 0; a < gpus; ++a)
    for (std::size_t b = a + 1; b < gpus; ++b)
      if (const int s = strength(joins.between(a, b)); s > 0) levels.push_back(s);
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  Grouping found;
  std::vector<std::size_t> before(gpus);
  std::iota(before.begin(), before.end(), 0);
  for (const int level : levels) {
    const std::vector<std::size_t> root = components(joins, gpus, strength, level);
    Step step{level, {}, std::count(root.begin(), root.end(), 0) == static_cast<std::ptrdiff_t>(gpus)};
    for (std::size_t a = 0; a < gpus; ++a)
      for (std::size_t b = a + 1; b < gpus; ++b)
        if (root[a] == root[b] && strength(joins.between(a, b)) < level) found.complete = false;
    for (std::size_t r = 0; r < gpus; ++r) {
      model::CpuSet group;
      for (std::size_t a = 0; a < gpus; ++a)
        if (root[a] == r) group.add(static_cast<unsigned>(a));
      const auto old = static_cast<std::size_t>(std::count(before.begin(), before.end(), r));
      if (group.size() > std::max<std::size_t>(old, 1)) step.groups.push_back(std::move(group));
    }
    if (!step.groups.empty()) found.steps.push_back(std::move(step));
    before = root;
  }
  return found;
}

std::string named(const Step& step, bool first) {
  if (step.everybody) return first ? "every two GPUs" : "all others";
  std::string text;
  for (const model::CpuSet& group : step.groups) text += (!text.empty() ? " " : first ? "GPU " : "") + group.to_string();
  return text;
}

// "GPU 0,1 2,3: 4 links; all others: …"
std::string phrase(const Grouping& grouping, const std::function<std::string(int)>& word) {
  std::string text;
  for (const Step& step : grouping.steps)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", named(step, text.empty()), word(step.strength));
  return text;
}

std::vector<std::string> table(const Joins& joins, std::size_t gpus, const std::function<std::string(const Join&)>& cell) {
  std::vector<std::string> rows(gpus + 1, std::string(3, ' '));
  for (std::size_t a = 0; a < gpus; ++a) {
    rows[0] += fmt::format("{:>3}", a);
    rows[a + 1] = fmt::format("{:>3}", a);
    for (std::size_t b = 0; b < gpus; ++b) rows[a + 1] += fmt::format("{:>3}", a == b ? "x" : cell(joins.between(a, b)));
  }
  return rows;
}

bool is_nvlink(const Join& join) { return join.fast == LinkKind::nvlink || join.fast == LinkKind::nvswitch; }

constexpr std::size_t widest_table = 16;  // GPUs; a table of more does not fit 60 columns

// Links of one kind: strength = twice their number, 1 where that is not told. A fabric:
// they end in switches, not at another GPU.
void add_fast(std::string what, bool fabric, const std::function<bool(const Join&)>& mine, const Joins& joins, std::size_t gpus,
              std::vector<LinkFact>& facts) {
  const Strength strength = [&](const Join& join) { return !mine(join) ? 0 : join.count ? 2 * std::max(*join.count, 1) : 1; };
  const auto number = [](int s) { return s == 1 ? std::string("joined") : s == 2 ? "1 link" : fmt::format("{} links", s / 2); };
  const Grouping groups = grouping(joins, gpus, strength);
  if (groups.empty()) return;
  if (groups.complete) {
    if (fabric && groups.steps.size() == 1) {
      const Step& step = groups.steps.front();
      const std::string each = step.everybody ? "every GPU" : "each of " + named(step, true);
      facts.push_back({std::move(what), fmt::format("{} from {}", number(step.strength), each), {}});
      return;
    }
    facts.push_back({std::move(what), phrase(groups, number), {}});
  } else if (gpus <= widest_table) {
    facts.push_back({std::move(what), "links between any two GPUs:", table(joins, gpus, [&](const Join& join) {
                       const int s = strength(join);
                       return s == 0 ? std::string("-") : s == 1 ? "+" : std::to_string(s / 2);
                     })});
  } else {
    facts.push_back({std::move(what), "no regular pattern: see thole topo --matrix", {}});
  }
}

constexpr int of_one_gpu = static_cast<int>(LinkKind::sys) + 2;  // nearer than any PCIe distance

std::string pcie_word(int strength) {
  if (strength == of_one_gpu) return "one GPU";
  switch (static_cast<LinkKind>(static_cast<int>(LinkKind::sys) + 1 - strength)) {
    case LinkKind::pix: return "one switch (PIX)";
    case LinkKind::pxb: return "several switches (PXB)";
    case LinkKind::phb: return "one host bridge (PHB)";
    case LinkKind::node: return "one NUMA node (NODE)";
    default: return "across nodes (SYS)";
  }
}

bool all_fast(const Joins& joins, std::size_t gpus) {
  for (std::size_t a = 0; a < gpus; ++a)
    for (std::size_t b = a + 1; b < gpus; ++b)
      if (!joins.between(a, b).fast && !joins.between(a, b).same) return false;
  return true;
}

}  // namespace

bool through_switch(const Joins& joins, std::size_t gpus) {
  for (std::size_t a = 0; a < gpus; ++a) {
    int links = 0;
    for (std::size_t b = 0; b < gpus; ++b) {
      if (a == b) continue;
      const Join& join = joins.between(a, b);
      if (join.fast == LinkKind::nvswitch) return true;
      if (join.fast == LinkKind::nvlink) links += join.count.value_or(1);
    }
    if (links > most_nvlinks) return true;
  }
  return false;
}

std::vector<LinkFact> link_facts(const model::Machine& machine, const Joins& joins) {
  std::vector<LinkFact> facts;
  const std::size_t gpus = machine.gpus.size();
  if (gpus < 2) return facts;
  const bool fabric = through_switch(joins, gpus);
  add_fast(fabric ? "NVSwitch" : "NVLink", fabric, is_nvlink, joins, gpus, facts);
  add_fast("xGMI", false, [](const Join& join) { return join.fast == LinkKind::xgmi; }, joins, gpus, facts);
  add_fast("C2C", false, [](const Join& join) { return join.fast == LinkKind::c2c; }, joins, gpus, facts);
  if (all_fast(joins, gpus)) return facts;
  const Strength near = [](const Join& join) {
    return join.same ? of_one_gpu : join.pcie ? static_cast<int>(LinkKind::sys) + 1 - static_cast<int>(*join.pcie) : 0;
  };
  if (const Grouping groups = grouping(joins, gpus, near); !groups.empty())
    facts.push_back({"PCIe", phrase(groups, pcie_word), {}});
  return facts;
}

}  // namespace thole::cli
