// How the division works. Every GPU claims the usable cores near it. Cores with the same claimants form a cell. Cells are dealt
// in the order of fewest claimants, each core to the claimant that has least so far, and laid out as runs in the order of
// GPUs. Where near sets are equal or apart, as on nearly all machines, this is: the cores of a node in equal runs, the
// remainder to lower GPUs. Where they overlap (virtual machines, a GPU whose own node is not allowed), what only one can use
// goes to that one first. A GPU that comes out empty takes a core over from one that can spare it, if need be along a chain;
// only when there are fewer near cores than GPUs do GPUs share a core, and always a near one.
#include "plan/bind/shares.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace thole::plan {

using model::Machine;

namespace {

using Gpus = std::vector<std::size_t>;

struct Cell {
  Gpus claimants;
  CoreList cores;
};

// Gives `cores` to `takers`, each core to the one that has least, as runs in the order of takers.
void deal(const CoreList& cores, const Gpus& takers, std::vector<CoreList>& lists) {
  if (takers.empty()) return;
  std::vector<std::size_t> counts(takers.size());
  for (std::size_t i = 0; i < cores.size(); ++i) {
    std::size_t least = 0;
    for (std::size_t t = 1; t < takers.size(); ++t)
      if (lists[takers[t]].size() + counts[t] < lists[takers[least]].size() + counts[least]) least = t;
    ++counts[least];
  }
  auto next = cores.begin();
  for (std::size_t t = 0; t < takers.size(); ++t) {
    const auto end = next + static_cast<std::ptrdiff_t>(counts[t]);
    lists[takers[t]].insert(lists[takers[t]].end(), next, end);
    next = end;
  }
}

std::vector<Cell> cells_of(const std::vector<Territory>& territories, const Cores& cores) {
  std::vector<Gpus> claimants(cores.all().size());
  for (std::size_t gpu = 0; gpu < territories.size(); ++gpu)
    for (const std::size_t core : territories[gpu].cores) claimants[core].push_back(gpu);
  std::map<std::pair<Gpus, unsigned>, CoreList> by_claimants;  // and by kind of core, so that all get of each
  for (std::size_t core = 0; core < claimants.size(); ++core)
    if (!claimants[core].empty()) by_claimants[{claimants[core], cores.all()[core].threads}].push_back(core);
  std::vector<Cell> cells;
  for (auto& [key, list] : by_claimants) cells.push_back({key.first, std::move(list)});
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    return a.claimants.size() != b.claimants.size() ? a.claimants.size() < b.claimants.size() : a.cores < b.cores;
  });
  return cells;
}

std::vector<CoreList> divided(const std::vector<Territory>& territories, const Cores& cores) {
  std::vector<CoreList> lists(territories.size());
  for (const Cell& cell : cells_of(territories, cores)) deal(cell.cores, cell.claimants, lists);
  for (CoreList& list : lists) std::sort(list.begin(), list.end());
  return lists;
}

// Cores near no GPU go to the GPUs of their package; those of a package without GPUs to all.
void lend(const std::vector<Territory>& territories, const Cores& cores, std::vector<CoreList>& lists) {
  std::vector<bool> near(cores.all().size());
  std::map<int, Gpus> of_package;
  Gpus everyone;
  for (std::size_t gpu = 0; gpu < territories.size(); ++gpu) {
    everyone.push_back(gpu);
    for (const std::size_t core : territories[gpu].cores) {
      near[core] = true;
      Gpus& there = of_package[cores.all()[core].package.value_or(-1)];
      if (there.empty() || there.back() != gpu) there.push_back(gpu);
    }
  }
  std::map<std::pair<int, unsigned>, CoreList> idle;
  for (std::size_t core = 0; core < near.size(); ++core)
    if (!near[core]) idle[{cores.all()[core].package.value_or(-1), cores.all()[core].threads}].push_back(core);
  for (const bool at_home : {true, false})     // what a package's own GPUs take counts before what the homeless bring
    for (const auto& [key, list] : idle)
      if (of_package.contains(key.first) == at_home) deal(list, at_home ? of_package[key.first] : everyone, lists);
  for (CoreList& list : lists) std::sort(list.begin(), list.end());
}

std::size_t common(const CoreList& a, const CoreList& b) {
  CoreList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both.size();
}

Gpus claimants_of(const CoreList& list, const std::vector<Territory>& territories) {
  Gpus gpus;
  for (std::size_t gpu = 0; gpu < territories.size(); ++gpu)
    if (common(territories[gpu].cores, list) > 0) gpus.push_back(gpu);
  return gpus;
}

// Gives every GPU a core that can have one to itself: who came out empty takes one from a GPU with several, or from one that
// finds another for it (augmenting paths, as in bipartite matching).
class Sparing {
 public:
  Sparing(const std::vector<Territory>& territories, std::vector<CoreList>& lists, std::size_t cores)
      : territories_(territories), lists_(lists), owner_(cores, nobody) {
    for (std::size_t gpu = 0; gpu < lists.size(); ++gpu)
      for (const std::size_t core : lists[gpu]) owner_[core] = gpu;
  }

  void help(std::size_t gpu) {
    asked_.assign(owner_.size(), false);
    if (find_core(gpu)) for (CoreList& list : lists_) std::sort(list.begin(), list.end());
  }

 private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  bool find_core(std::size_t gpu) {
    for (const std::size_t core : territories_[gpu].cores) {
      if (asked_[core]) continue;
      asked_[core] = true;
      const std::size_t owner = owner_[core];
      if (owner == gpu) continue;
      if (owner != nobody && lists_[owner].size() == 1 && !find_core(owner)) continue;
      if (owner != nobody) std::erase(lists_[owner], core);
      lists_[gpu].push_back(core);
      owner_[core] = gpu;
      return true;
    }
    return false;
  }

  const std::vector<Territory>& territories_;
  std::vector<CoreList>& lists_;
  std::vector<std::size_t> owner_;             // by core
  std::vector<bool> asked_;
};

// Who still has none shares the near core that fewest have. By core: all GPUs that then have it.
std::map<std::size_t, Gpus> share_out(const std::vector<Territory>& territories, std::vector<CoreList>& lists) {
  std::map<std::size_t, Gpus> owners, shared;
  for (std::size_t gpu = 0; gpu < lists.size(); ++gpu)
    for (const std::size_t core : lists[gpu]) owners[core].push_back(gpu);
  for (std::size_t gpu = 0; gpu < lists.size(); ++gpu) {
    const CoreList& near = territories[gpu].cores;
    if (!lists[gpu].empty() || near.empty()) continue;
    const std::size_t core = *std::min_element(
        near.begin(), near.end(), [&](std::size_t a, std::size_t b) { return owners[a].size() < owners[b].size(); });
    lists[gpu] = {core};
    owners[core].push_back(gpu);
    shared[core] = owners[core];
  }
  return shared;
}

std::string said(const CoreList& mine, const Territory& territory, const Gpus& among, const Cores& cores) {
  const std::size_t near = common(mine, territory.cores);
  std::string text = fmt::format("{}: {} of {} cores", cores.place_of(territory.cores), near, territory.cores.size());
  if (among.size() > 1) text += ", divided among " + gpus_text(among);
  if (near < mine.size()) text += fmt::format("; {} lent from where no GPU is", mine.size() - near);
  return text;
}

}  // namespace

std::string gpus_text(const Gpus& gpus) {
  std::vector<std::string> texts;
  for (const std::size_t gpu : gpus) texts.push_back(std::to_string(gpu));
  return (texts.size() == 1 ? "GPU " : "GPUs ") + join(texts, ",");
}

std::vector<CoreList> cut(const CoreList& list, std::size_t parts, const Cores& cores) {
  std::map<unsigned, CoreList> kinds;
  for (const std::size_t core : list) kinds[cores.all()[core].threads].push_back(core);
  std::vector<CoreList> lists(parts);
  Gpus takers(parts);
  for (std::size_t i = 0; i < parts; ++i) takers[i] = i;
  for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) deal(kind->second, takers, lists);  // big ones first
  for (CoreList& part : lists) std::sort(part.begin(), part.end());
  return lists;
}

std::vector<Share> divide(const Machine& machine, const Cores& cores, const model::BindOptions& options) {
  std::vector<Territory> territories;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
    territories.push_back(territory(machine, gpu, Reach::node, cores));
  std::vector<CoreList> lists = divided(territories, cores);
  Sparing sparing(territories, lists, cores.all().size());
  for (std::size_t gpu = 0; gpu < lists.size(); ++gpu)
    if (lists[gpu].empty()) sparing.help(gpu);
  const std::map<std::size_t, Gpus> shared = share_out(territories, lists);
  if (options.lend) lend(territories, cores, lists);
  std::vector<Share> shares(lists.size());
  std::size_t poorest = cores.all().size();
  for (const CoreList& list : lists) poorest = std::min(poorest, list.size());
  for (std::size_t gpu = 0; gpu < lists.size(); ++gpu) {
    Share& share = shares[gpu];
    if (options.balanced) lists[gpu].resize(poorest);
    share.cores = std::move(lists[gpu]);
    share.lack = territories[gpu].lack;
    share.why = said(share.cores, territories[gpu], claimants_of(territories[gpu].cores, territories), cores);
    for (const auto& [core, gpus] : shared)
      if (std::binary_search(share.cores.begin(), share.cores.end(), core))
        share.lack = fmt::format("fewer near cores than GPUs: {} share one", gpus_text(gpus));
  }
  return shares;
}

std::vector<Share> by_cache(const Machine& machine, const Cores& cores) {
  std::vector<Share> shares;
  std::map<CoreList, std::size_t> given;       // to GPUs near the same cores
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const Territory near = territory(machine, gpu, Reach::node, cores);
    const std::size_t at = given[near.cores]++;
    Share& share = shares.emplace_back();
    share.lack = near.lack;
    std::map<int, CoreList> caches;
    bool known = true;
    for (const std::size_t core : near.cores) {
      known = known && cores.all()[core].l3;
      caches[cores.all()[core].l3.value_or(-1)].push_back(core);
    }
    if (!known || caches.empty()) {
      share.cores = near.cores;
      share.why = cores.place_of(share.cores);
      if (share.lack.empty()) share.lack = "the L3 caches are not known";
      continue;
    }
    const auto cpus = [&](const CoreList& list) { return cores.cpus_of(list, model::Smt::all).size(); };
    std::vector<std::pair<int, CoreList>> order(caches.begin(), caches.end());
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return cpus(a.second) != cpus(b.second) ? cpus(a.second) > cpus(b.second) : a.second < b.second;
    });
    const auto& [number, list] = order[at % order.size()];
    share.cores = list;
    share.why = fmt::format("L3 cache {} of {}", number, cores.place_of(near.cores));
  }
  return shares;
}

}  // namespace thole::plan
