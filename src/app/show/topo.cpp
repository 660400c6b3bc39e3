// How this works: CPUs first. Each (package, node) pair becomes a place; its CPUs are gathered into cores and these into
// level-3 groups. Then every device looks for its place, and the devices of a place that are behind a common PCIe switch
// are joined (union of all pairs at most PXB apart: PCIe distances are those of a tree, so the pairs agree).
#include "app/show/topo.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace thole::app {

namespace {

using Number = std::optional<int>;

// Numbers known before unknown ones.
struct KnownFirst {
  bool operator()(const Number& a, const Number& b) const { return a && b ? *a < *b : a && !b; }
};

std::vector<CoreGroup> groups_of(const std::vector<const model::Cpu*>& cpus) {
  std::vector<CoreGroup> groups;
  std::map<int, std::pair<std::size_t, std::size_t>> known;  // core -> where it is
  for (const model::Cpu* cpu : cpus) {
    if (cpu->core) {
      if (const auto at = known.find(*cpu->core); at != known.end()) {
        groups[at->second.first].cores[at->second.second].add(cpu->id);
        continue;
      }
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const CoreGroup& g) { return g.l3 == cpu->l3; });
    if (group == groups.end()) group = groups.insert(groups.end(), {cpu->l3, {}});
    group->cores.emplace_back().add(cpu->id);
    if (cpu->core) known[*cpu->core] = {static_cast<std::size_t>(group - groups.begin()), group->cores.size() - 1};
  }
  return groups;
}

std::optional<std::uint64_t> memory_of(const model::Machine& machine, const Number& numa) {
  for (const model::NumaNode& node : machine.numa)
    if (node.id == numa) return node.memory_mib;
  return std::nullopt;
}

// CPUs of no known node by the GPUs they are near to: as many places as there are distinct sets of near CPUs.
std::vector<std::vector<const model::Cpu*>> by_near_gpus(const model::Machine& machine,
                                                         const std::vector<const model::Cpu*>& cpus) {
  std::vector<std::pair<std::vector<bool>, std::vector<const model::Cpu*>>> sets;
  for (const model::Cpu* cpu : cpus) {
    std::vector<bool> near;
    for (const model::Gpu& gpu : machine.gpus) near.push_back(gpu.near_cpus.node && gpu.near_cpus.node->contains(cpu->id));
    auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& known) { return known.first == near; });
    if (set == sets.end()) set = sets.insert(sets.end(), {near, {}});
    set->second.push_back(cpu);
  }
  std::vector<std::vector<const model::Cpu*>> places;
  for (auto& set : sets) places.push_back(std::move(set.second));
  return places;
}

void add_packages(const model::Machine& machine, Arrangement& chart) {
  std::map<Number, std::map<Number, std::vector<const model::Cpu*>, KnownFirst>, KnownFirst> sorted;
  for (const model::Cpu& cpu : machine.cpus) sorted[cpu.package][cpu.numa].push_back(&cpu);
  std::map<int, int> packages_of_node;
  for (const auto& [number, nodes] : sorted) {
    Package& package = chart.packages.emplace_back();
    package.number = number;
    for (const auto& [numa, all] : nodes) {
      const auto sets = numa ? std::vector<std::vector<const model::Cpu*>>{all} : by_near_gpus(machine, all);
      for (const auto& cpus : sets) {
        const bool told = std::all_of(cpus.begin(), cpus.end(), [](const model::Cpu* cpu) { return cpu->core.has_value(); });
        package.places.push_back({numa, memory_of(machine, numa), told, groups_of(cpus), {}});
      }
      if (numa && ++packages_of_node[*numa] == 2) chart.split.push_back(*numa);
    }
  }
}

// Nodes without CPUs: high-bandwidth memory, CXL.
void add_bare_nodes(const model::Machine& machine, Arrangement& chart) {
  std::set<int> drawn;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.numa) drawn.insert(*cpu.numa);
  for (const model::NumaNode& node : machine.numa)
    if (drawn.insert(node.id).second) chart.apart.push_back({node.id, node.memory_mib, true, {}, {}});
}

bool covers(const Place& place, const model::CpuSet& cpus) {
  model::CpuSet own;
  for (const model::CpuSet& core : place.cores()) own = own | core;
  return !cpus.empty() && (cpus - own).empty();
}

// The place of a device, made when there is none yet.
Place& place_of(const Number& numa, const std::optional<model::CpuSet>& near, Arrangement& chart) {
  std::vector<Place*> inside;
  for (Package& package : chart.packages)
    for (Place& place : package.places) inside.push_back(&place);
  const bool split = numa && std::find(chart.split.begin(), chart.split.end(), *numa) != chart.split.end();
  if (!split) {
    for (Place* place : inside)
      if (numa ? place->numa == numa : near && covers(*place, *near)) return *place;
    if (!numa && !near && inside.size() == 1) return *inside.front();  // near the only node there is
  }
  for (Place& place : chart.apart)
    if (place.numa == numa) return place;
  chart.apart.push_back({numa, std::nullopt, true, {}, {}});
  return chart.apart.back();
}

// Joins `device` (numbered as in Joins) to the clusters it shares a switch with.
void add_device(std::size_t device, std::size_t gpus, const Joins& joins, Place& place) {
  Cluster own;
  (device < gpus ? own.gpus : own.nics).push_back(device < gpus ? device : device - gpus);
  std::size_t at = place.clusters.size();
  for (std::size_t c = 0; c < place.clusters.size();) {
    Cluster& cluster = place.clusters[c];
    std::optional<model::LinkKind> farthest;
    const auto look = [&](std::size_t other) {
      if (const Join& join = joins.between(device, other); behind_one_switch(join))
        farthest = farthest ? std::max(*farthest, *join.pcie) : join.pcie;
    };
    for (std::size_t gpu : cluster.gpus) look(gpu);
    for (std::size_t nic : cluster.nics) look(gpus + nic);
    if (!farthest) {
      ++c;
      continue;
    }
    own.kind = std::max({own.kind.value_or(*farthest), cluster.kind.value_or(*farthest), *farthest});
    own.gpus.insert(own.gpus.begin(), cluster.gpus.begin(), cluster.gpus.end());
    own.nics.insert(own.nics.begin(), cluster.nics.begin(), cluster.nics.end());
    at = std::min(at, c);
    place.clusters.erase(place.clusters.begin() + static_cast<std::ptrdiff_t>(c));
  }
  std::sort(own.gpus.begin(), own.gpus.end());
  std::sort(own.nics.begin(), own.nics.end());
  at = std::min(at, place.clusters.size());
  place.clusters.insert(place.clusters.begin() + static_cast<std::ptrdiff_t>(at), std::move(own));
}

// A NIC whose node is not known stands where the nearest GPU of its node does.
Place& place_of_nic(std::size_t nic, const model::Machine& machine, const Joins& joins, Arrangement& chart) {
  const std::size_t gpus = machine.gpus.size();
  if (machine.nics[nic].numa) return place_of(machine.nics[nic].numa, std::nullopt, chart);
  const model::Gpu* beside = nullptr;
  model::LinkKind nearest = model::LinkKind::sys;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    const auto& pcie = joins.between(gpus + nic, gpu).pcie;
    if (pcie && *pcie < nearest) nearest = *pcie, beside = &machine.gpus[gpu];
  }
  return beside ? place_of(beside->numa, beside->near_cpus.node, chart) : place_of(std::nullopt, std::nullopt, chart);
}

}  // namespace

std::vector<model::CpuSet> Place::cores() const {
  std::vector<model::CpuSet> all;
  for (const CoreGroup& group : groups) all.insert(all.end(), group.cores.begin(), group.cores.end());
  return all;
}

Arrangement arrange(const model::Machine& machine, const Joins& joins) {
  Arrangement chart;
  add_packages(machine, chart);
  add_bare_nodes(machine, chart);
  const std::size_t gpus = machine.gpus.size();
  for (std::size_t g = 0; g < gpus; ++g)
    add_device(g, gpus, joins, place_of(machine.gpus[g].numa, machine.gpus[g].near_cpus.node, chart));
  for (std::size_t n = 0; n < machine.nics.size(); ++n)
    add_device(gpus + n, gpus, joins, place_of_nic(n, machine, joins, chart));
  std::stable_sort(chart.apart.begin(), chart.apart.end(),
                   [](const Place& a, const Place& b) { return KnownFirst{}(a.numa, b.numa); });
  return chart;
}

}  // namespace thole::app
