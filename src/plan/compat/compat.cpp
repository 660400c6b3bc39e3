// How this works. A core is the tuple of those of its CPUs that are allowed and in a GPU's near set, ascending. Of every
// package, the cores near some GPU ("owned") head a bundle each, and the package's other cores are dealt round to these bundles
// in turn. A GPU's list is the bundles headed by its near cores; GPUs with equal lists divide them. Only then is a bundle
// opened again: its head alone (scope node), or all (scope socket),
// layer by layer up to the length of the GPU's shortest bundle.
//
// Made to equal gpu_affinity 5d5e28b, its surprises included: one GPU without cores fails all ranks; overlapping sets are an
// error; CPU numbers beyond 64 * ceil(online CPUs / 64) do not exist, for that is the mask the original asks NVML for; with
// `balanced` much is left idle on uneven machines. It deviates where the original is wrong without doubt: a GPU that finds no
// free core under single_unique is an error (there, later ranks get their neighbours' cores), and cores may have more than two
// threads (there, POWER's four are taken for two cores and more).
#include "plan/compat/compat.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

#include "base/text.hpp"
#include "plan/bind/near.hpp"

namespace thole::plan {

using model::Affinity;
using model::BindRefusal;
using model::CompatOptions;
using model::CpuSet;
using model::Machine;
using model::Scope;

namespace {

constexpr unsigned mask_word = 64;             // NVML hands out masks in words of 64 CPUs

// Some CPUs of one physical core. As the tuple of CPU numbers that the original compares and sorts by.
struct CompatCore {
  unsigned lowest = 0;                         // its first CPU
  unsigned physical = 0;
  std::uint64_t threads = 0;                   // which of the physical core's siblings

  bool operator==(const CompatCore&) const = default;
  bool operator<(const CompatCore& other) const {
    if (physical != other.physical || lowest != other.lowest) return lowest < other.lowest;
    const int differ = std::countr_zero(threads ^ other.threads);
    if (differ == mask_word) return false;
    const bool mine = threads >> differ & 1;   // who has the smaller CPU there comes first, unless the other has ended
    const std::uint64_t rest = (mine ? other.threads : threads) >> differ;
    return mine ? rest != 0 : rest == 0;
  }
};
using Cores = std::vector<CompatCore>;

// What each GPU is given, as numbers of bundles; a bundle has its head first.
using Indices = std::vector<std::size_t>;
struct Bundles {
  std::vector<Cores> contents;
  std::vector<Indices> lists;                  // by GPU
};

class Original {
 public:
  Original(const Machine& machine, const std::optional<CpuSet>& allowed, const std::vector<std::size_t>& gpus);

  std::variant<std::vector<CpuSet>, BindRefusal> assign(const CompatOptions& options, model::Smt smt) const;

 private:
  std::optional<BindRefusal> read(Scope scope, std::vector<Cores>& lists) const;
  Cores grouped(const CpuSet& cpus) const;
  std::variant<std::vector<CpuSet>, BindRefusal> counted(std::vector<Cores> lists, std::size_t least,
                                                         std::optional<std::size_t> most, model::Smt smt) const;

  const Machine& machine_;
  const std::vector<std::size_t>& gpus_;
  std::optional<CpuSet> available_;            // nothing: all that is known about CPUs is what is near the GPUs
  std::vector<std::vector<unsigned>> siblings_;  // of each physical core, in the order of these lists
  std::vector<unsigned> physical_;             // by CPU; for those that are in a core
};

Original::Original(const Machine& machine, const std::optional<CpuSet>& allowed, const std::vector<std::size_t>& gpus)
    : machine_(machine), gpus_(gpus), available_(allowed) {
  const std::size_t limit = (machine.cpus.size() + mask_word - 1) / mask_word * mask_word;
  CpuSet online, known;
  std::map<long, std::vector<unsigned>> by_number;
  for (const model::Cpu& cpu : machine.cpus) {
    if (cpu.id < limit) online.add(cpu.id);
    known.add(cpu.id);
    const long alone = -1 - static_cast<long>(cpu.id);
    const long number = cpu.core ? long{*cpu.core} : alone;
    const bool crowded = by_number[number].size() == mask_word;   // more than any core has: the numbers are wrong
    by_number[crowded ? alone : number].push_back(cpu.id);
  }
  if (!machine.cpus.empty()) available_ = allowed ? online & *allowed : online;
  else
    for (const std::size_t gpu : gpus)
      for (const auto& near : {near_node(machine, machine.gpus[gpu]), near_package(machine, machine.gpus[gpu])})
        for (const unsigned cpu : near.value_or(CpuSet()).to_vector()) {
          known.add(cpu);
          by_number[cpu] = {cpu};
        }
  for (auto& [number, siblings] : by_number) {
    std::sort(siblings.begin(), siblings.end());
    siblings_.push_back(std::move(siblings));
  }
  std::sort(siblings_.begin(), siblings_.end());
  physical_.resize(known.empty() ? 0 : known.to_vector().back() + 1);
  for (unsigned physical = 0; physical < siblings_.size(); ++physical)
    for (const unsigned cpu : siblings_[physical]) physical_[cpu] = physical;
}

// A set as its cores, in the order of all their online siblings.
Cores Original::grouped(const CpuSet& cpus) const {
  Cores cores;
  std::vector<std::size_t> at(siblings_.size(), siblings_.size());  // of each physical core in the list
  for (const unsigned cpu : cpus.to_vector()) {
    const unsigned physical = physical_[cpu];
    if (at[physical] == siblings_.size()) {
      at[physical] = cores.size();
      cores.push_back({cpu, physical, 0});
    }
    const auto& siblings = siblings_[physical];
    cores[at[physical]].threads |= std::uint64_t{1} << (std::find(siblings.begin(), siblings.end(), cpu) - siblings.begin());
  }
  std::sort(cores.begin(), cores.end(), [](const CompatCore& a, const CompatCore& b) { return a.physical < b.physical; });
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

Cores sorted(Cores cores) {
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

Bundles bundles_of(const std::vector<Cores>& package, const std::vector<Cores>& node) {
  Bundles bundles;
  std::map<CompatCore, std::size_t> number;    // of the bundle that a core heads
  for (std::size_t gpu = 0; gpu < package.size(); ++gpu) {
    if (std::find(package.begin(), package.end(), package[gpu]) - package.begin() < static_cast<std::ptrdiff_t>(gpu))
      continue;                                // this package has had its share
    Cores owned;
    for (std::size_t other = gpu; other < package.size(); ++other)
      if (package[other] == package[gpu]) owned.insert(owned.end(), node[other].begin(), node[other].end());
    owned = sorted(std::move(owned));
    if (owned.empty()) continue;
    Indices heads;
    for (const CompatCore& core : owned) {
      const auto [known, fresh] = number.try_emplace(core, bundles.contents.size());
      if (fresh) bundles.contents.emplace_back();
      bundles.contents[known->second].push_back(core);
      heads.push_back(known->second);
    }
    std::size_t at = 0;
    for (const CompatCore& core : sorted(package[gpu]))
      if (!std::binary_search(owned.begin(), owned.end(), core)) bundles.contents[heads[at++ % heads.size()]].push_back(core);
  }
  for (const Cores& mine : node) {
    Indices& list = bundles.lists.emplace_back();
    for (const CompatCore& core : mine) list.push_back(number.at(core));
  }
  return bundles;
}

// Opens the bundles of each list: their heads, or all layers that every bundle of the list has.
std::vector<Cores> opened(const Bundles& bundles, const std::vector<Indices>& lists, Scope scope) {
  std::vector<Cores> result;
  for (const Indices& list : lists) {
    Cores& cores = result.emplace_back();
    std::size_t layers = 1;
    if (scope == Scope::socket && !list.empty()) {
      layers = bundles.contents[list.front()].size();
      for (const std::size_t bundle : list) layers = std::min(layers, bundles.contents[bundle].size());
    }
    for (std::size_t layer = 0; layer < layers; ++layer)
      for (const std::size_t bundle : list) cores.push_back(bundles.contents[bundle][layer]);
  }
  return result;
}

// Everything in the lists, what is near some GPU's node first.
std::vector<Cores> near_first(std::vector<Cores> lists, const std::vector<Cores>& node) {
  Cores near;
  for (const Cores& list : node) near.insert(near.end(), list.begin(), list.end());
  near = sorted(std::move(near));
  for (Cores& list : lists) {
    std::sort(list.begin(), list.end());
    std::stable_partition(list.begin(), list.end(),
                          [&](const CompatCore& core) { return std::binary_search(near.begin(), near.end(), core); });
  }
  return lists;
}

// One bundle each that no GPU before has; fewer lists than GPUs where one finds none.
std::vector<Indices> first_not_taken(const Bundles& bundles) {
  std::vector<Indices> result;
  std::vector<bool> taken(bundles.contents.size());
  for (const Indices& list : bundles.lists) {
    const auto free = std::find_if(list.begin(), list.end(), [&](std::size_t bundle) { return !taken[bundle]; });
    if (free == list.end()) break;
    taken[*free] = true;
    result.push_back({*free});
  }
  return result;
}

// GPUs with equal lists divide them; under `balanced` nobody gets more than the poorest.
std::vector<Indices> divided(const Bundles& bundles, bool interleaved, bool balanced) {
  std::map<Indices, std::vector<std::size_t>> sharers;
  for (std::size_t gpu = 0; gpu < bundles.lists.size(); ++gpu) sharers[bundles.lists[gpu]].push_back(gpu);
  std::size_t poorest = bundles.contents.size();
  for (const auto& [list, gpus] : sharers) poorest = std::min(poorest, list.size() / gpus.size());
  std::vector<Indices> result(bundles.lists.size());
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
std::variant<std::vector<CpuSet>, BindRefusal> Original::counted(std::vector<Cores> lists, std::size_t least,
                                                                 std::optional<std::size_t> most, model::Smt smt) const {
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (lists[rank].size() < least)
      return BindRefusal{fmt::format("{} cores for rank {}, which is less than {}", lists[rank].size(), rank, least), rank};
  std::vector<CpuSet> result;
  for (Cores& cores : lists) {
    if (most && cores.size() > *most) cores.resize(*most);
    if (cores.empty()) return BindRefusal{fmt::format("no cores for rank {}", result.size()), result.size()};
    CpuSet& cpus = result.emplace_back();
    for (const CompatCore& core : cores) {
      cpus.add(core.lowest);
      if (smt == model::Smt::one) continue;
      for (std::uint64_t rest = core.threads; rest != 0; rest &= rest - 1)
        cpus.add(siblings_[core.physical][static_cast<std::size_t>(std::countr_zero(rest))]);
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
  const Bundles bundles = bundles_of(package, node);
  if (options.affinity == Affinity::single) return counted(opened(bundles, bundles.lists, options.scope), 1, 1, smt);
  if (options.affinity == Affinity::single_unique) {
    const std::vector<Indices> single = first_not_taken(bundles);
    if (single.size() < bundles.lists.size())
      return BindRefusal{fmt::format("no core is left for rank {} that no other rank has", single.size()), single.size()};
    return counted(opened(bundles, single, options.scope), 1, 1, smt);
  }
  const bool interleaved = options.affinity == Affinity::unique_interleaved;
  return counted(opened(bundles, divided(bundles, interleaved, options.balanced), options.scope), options.min_cores,
                 options.max_cores, smt);
}

}  // namespace

std::variant<std::vector<CpuSet>, BindRefusal> compat(const Machine& machine, const std::optional<CpuSet>& allowed,
                                                      const std::vector<std::size_t>& gpus, const CompatOptions& options,
                                                      model::Smt smt) {
  return Original(machine, allowed, gpus).assign(options, smt);
}

}  // namespace thole::plan
