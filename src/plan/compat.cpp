// How this works. A core is the tuple of those of its CPUs that are allowed and in a GPU's near set, ascending. Of every package,
// the cores near some GPU ("owned") head a bundle each, and the package's other cores are dealt round to these bundles in turn.
// A GPU's list is the bundles headed by its near cores; GPUs with equal lists divide them. Only then is a bundle opened again:
// its head alone (scope node), or all (scope socket), layer by layer up to the length of the GPU's shortest bundle.
//
// Made to equal gpu_affinity 5d5e28b, its surprises included: one GPU without cores fails all ranks; overlapping sets are an
// error; CPU numbers beyond 64 * ceil(online CPUs / 64) do not exist, for that is the mask the original asks NVML for; with
// `balanced` much is left idle on uneven machines. It deviates where the original is wrong without doubt: a GPU that finds no
// free core under single_unique is an error (there, later ranks get its neighbours' cores), and cores may have more than two
// threads (there, POWER's four are taken for two cores and more).
#include "plan/compat.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/text.hpp"
#include "plan/bind_near.hpp"

namespace thole::plan {

using model::Affinity;
using model::BindRefusal;
using model::CompatOptions;
using model::CpuSet;
using model::Machine;
using model::Scope;

namespace {

using Core = std::vector<unsigned>;            // its CPUs, ascending
using Cores = std::vector<Core>;
using Bundle = Cores;                          // the core near a GPU first, then those dealt to it
using Bundles = std::vector<Bundle>;

constexpr unsigned mask_word = 64;             // NVML hands out masks in words of 64 CPUs

class Original {
 public:
  Original(const Machine& machine, const std::optional<CpuSet>& allowed, const std::vector<std::size_t>& gpus);

  std::variant<std::vector<CpuSet>, BindRefusal> assign(const CompatOptions& options, model::Smt smt) const;

 private:
  std::optional<BindRefusal> read(Scope scope, std::vector<Cores>& lists) const;
  Cores grouped(const CpuSet& cpus) const;

  const Machine& machine_;
  const std::vector<std::size_t>& gpus_;
  std::optional<CpuSet> available_;            // nothing: all that is known about CPUs is what is near the GPUs
  std::map<unsigned, Core> siblings_;
};

Original::Original(const Machine& machine, const std::optional<CpuSet>& allowed, const std::vector<std::size_t>& gpus)
    : machine_(machine), gpus_(gpus), available_(allowed) {
  if (machine.cpus.empty()) return;
  const std::size_t limit = (machine.cpus.size() + mask_word - 1) / mask_word * mask_word;
  std::map<int, Core> by_number;
  CpuSet online;
  for (const model::Cpu& cpu : machine.cpus) {
    if (cpu.id < limit) online.add(cpu.id);
    if (cpu.core) by_number[*cpu.core].push_back(cpu.id);
  }
  available_ = allowed ? online & *allowed : online;
  for (auto& [number, siblings] : by_number) {
    std::sort(siblings.begin(), siblings.end());
    for (const unsigned cpu : siblings) siblings_[cpu] = siblings;
  }
}

// A set as its cores, in the order of all their online siblings.
Cores Original::grouped(const CpuSet& cpus) const {
  std::map<Core, Core> by_siblings;
  for (const unsigned cpu : cpus.to_vector()) {
    const auto known = siblings_.find(cpu);
    by_siblings[known == siblings_.end() ? Core{cpu} : known->second].push_back(cpu);
  }
  Cores cores;
  for (auto& [siblings, core] : by_siblings) cores.push_back(std::move(core));
  return cores;
}

// The available cores near every GPU. Any two GPUs' sets must be equal or have nothing in common.
std::optional<BindRefusal> Original::read(Scope scope, std::vector<Cores>& lists) const {
  std::vector<CpuSet> sets;
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
    const model::Gpu& gpu = machine_.gpus[gpus_[rank]];
    auto near = scope == Scope::node ? near_node(machine_, gpu) : near_package(machine_, gpu);
    if (!near)
      return BindRefusal{fmt::format("the CPUs near GPU {} in scope {} are not known", gpus_[rank], to_string(scope)), rank};
    sets.push_back(available_ ? *near & *available_ : *std::move(near));
  }
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!(sets[i] == sets[j]) && !(sets[i] & sets[j]).empty())
        return BindRefusal{fmt::format("the CPUs near GPUs {} and {} overlap without being the same", gpus_[j], gpus_[i]), i};
  for (const CpuSet& set : sets) lists.push_back(grouped(set));
  return std::nullopt;
}

// Each GPU's bundles, one for every core in its `node` list.
std::vector<Bundles> bundles_of(const std::vector<Cores>& package, const std::vector<Cores>& node) {
  std::map<Core, Bundle> bundle_of;
  for (std::size_t gpu = 0; gpu < package.size(); ++gpu) {
    if (std::find(package.begin(), package.begin() + static_cast<std::ptrdiff_t>(gpu), package[gpu]) !=
        package.begin() + static_cast<std::ptrdiff_t>(gpu))
      continue;                                // this package has had its turn
    std::set<Core> owned;
    for (std::size_t other = gpu; other < package.size(); ++other)
      if (package[other] == package[gpu]) owned.insert(node[other].begin(), node[other].end());
    std::vector<Bundle*> heads;
    for (const Core& core : owned) {
      heads.push_back(&bundle_of[core]);
      heads.back()->push_back(core);
    }
    if (heads.empty()) continue;
    std::size_t turn = 0;
    for (const Core& core : std::set<Core>(package[gpu].begin(), package[gpu].end()))
      if (!owned.contains(core)) heads[turn++ % heads.size()]->push_back(core);
  }
  std::vector<Bundles> result;
  for (const Cores& mine : node) {
    Bundles& list = result.emplace_back();
    for (const Core& core : mine) list.push_back(bundle_of.at(core));
  }
  return result;
}

// Opens bundles: their heads, or all layers that every bundle of the GPU has.
std::vector<Cores> opened(const std::vector<Bundles>& bundles, Scope scope) {
  std::vector<Cores> result;
  for (const auto& list : bundles) {
    Cores& cores = result.emplace_back();
    std::size_t layers = list.empty() ? 0 : 1;
    if (scope == Scope::socket && !list.empty())
      layers = std::min_element(list.begin(), list.end(), [](const Bundle& a, const Bundle& b) { return a.size() < b.size(); })->size();
    for (std::size_t layer = 0; layer < layers; ++layer)
      for (const Bundle& bundle : list) cores.push_back(bundle[layer]);
  }
  return result;
}

// Everything in the lists, what is near some GPU's node first.
std::vector<Cores> near_first(std::vector<Cores> lists, const std::vector<Cores>& node) {
  std::set<Core> near;
  for (const Cores& list : node) near.insert(list.begin(), list.end());
  for (Cores& list : lists)
    std::sort(list.begin(), list.end(), [&](const Core& a, const Core& b) {
      const bool far_a = !near.contains(a), far_b = !near.contains(b);
      return far_a != far_b ? far_b : a < b;
    });
  return lists;
}

// One bundle each that no GPU before has; fewer lists than GPUs where one finds none.
std::vector<Bundles> first_not_taken(const std::vector<Bundles>& bundles) {
  std::vector<Bundles> result;
  std::set<Bundle> taken;
  for (const auto& list : bundles) {
    const auto free = std::find_if(list.begin(), list.end(), [&](const Bundle& bundle) { return !taken.contains(bundle); });
    if (free == list.end()) break;
    taken.insert(*free);
    result.push_back({*free});
  }
  return result;
}

// GPUs with equal lists divide them; under `balanced` nobody gets more than the poorest.
std::vector<Bundles> divided(const std::vector<Bundles>& bundles, bool interleaved, bool balanced) {
  std::map<Bundles, std::vector<std::size_t>> sharers;
  for (std::size_t gpu = 0; gpu < bundles.size(); ++gpu) sharers[bundles[gpu]].push_back(gpu);
  std::size_t poorest = bundles.front().size();
  for (const auto& [list, gpus] : sharers) poorest = std::min(poorest, list.size() / gpus.size());
  std::vector<Bundles> result(bundles.size());
  for (const auto& [list, gpus] : sharers) {
    const std::size_t count = balanced ? poorest : list.size() / gpus.size();
    const std::size_t end = balanced ? gpus.size() * poorest : list.size();
    for (std::size_t k = 0; k < gpus.size(); ++k) {
      if (interleaved)
        for (std::size_t i = k; i < end; i += gpus.size()) result[gpus[k]].push_back(list[i]);
      else
        result[gpus[k]].assign(list.begin() + static_cast<std::ptrdiff_t>(k * count),
                               list.begin() + static_cast<std::ptrdiff_t>((k + 1) * count));
    }
  }
  return result;
}

// The ranks' lists cut to their bounds; a list that is too short, or empty, fails all.
std::variant<std::vector<CpuSet>, BindRefusal> counted(std::vector<Cores> lists, std::size_t least,
                                                       std::optional<std::size_t> most, model::Smt smt) {
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (lists[rank].size() < least)
      return BindRefusal{fmt::format("{} cores for rank {}, which is less than {}", lists[rank].size(), rank, least), rank};
  std::vector<CpuSet> result;
  for (Cores& cores : lists) {
    if (most && cores.size() > *most) cores.resize(*most);
    if (cores.empty()) return BindRefusal{fmt::format("no cores for rank {}", result.size()), result.size()};
    CpuSet& cpus = result.emplace_back();
    for (const Core& core : cores)
      for (const unsigned cpu : core) {
        cpus.add(cpu);
        if (smt == model::Smt::one) break;
      }
  }
  return result;
}

std::variant<std::vector<CpuSet>, BindRefusal> Original::assign(const CompatOptions& options, model::Smt smt) const {
  if (gpus_.empty()) return BindRefusal{"there are no ranks", std::nullopt};
  std::vector<Cores> scoped, node, package;
  if (options.affinity == Affinity::all) {
    if (auto refusal = read(options.scope, scoped)) return *refusal;
    if (auto refusal = read(Scope::node, node)) return *refusal;
    return counted(near_first(std::move(scoped), node), options.min_cores, options.max_cores, smt);
  }
  if (auto refusal = read(Scope::socket, package)) return *refusal;
  if (auto refusal = read(Scope::node, node)) return *refusal;
  const std::vector<Bundles> bundles = bundles_of(package, node);
  if (options.affinity == Affinity::single) return counted(opened(bundles, options.scope), 1, 1, smt);
  if (options.affinity == Affinity::single_unique) {
    const std::vector<Bundles> single = first_not_taken(bundles);
    if (single.size() < bundles.size())
      return BindRefusal{fmt::format("no core is left for rank {} that no other rank has", single.size()), single.size()};
    return counted(opened(single, options.scope), 1, 1, smt);
  }
  const bool interleaved = options.affinity == Affinity::unique_interleaved;
  return counted(opened(divided(bundles, interleaved, options.balanced), options.scope), options.min_cores, options.max_cores, smt);
}

}  // namespace

std::variant<std::vector<CpuSet>, BindRefusal> compat(const Machine& machine, const std::optional<CpuSet>& allowed,
                                                      const std::vector<std::size_t>& gpus, const CompatOptions& options,
                                                      model::Smt smt) {
  return Original(machine, allowed, gpus).assign(options, smt);
}

}  // namespace thole::plan
