#include "plan/bind/cores.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"

namespace thole::plan {

using model::CpuSet;

namespace {

struct Sibling {
  long key;                                    // PUs with one key are one core
  model::Cpu cpu;
};

// Every PU with the core it belongs to, core by core. Core numbers are kept apart from those of lone PUs by their sign.
std::vector<Sibling> by_core(const std::vector<model::Cpu>& cpus) {
  std::vector<Sibling> siblings;
  siblings.reserve(cpus.size());
  for (const model::Cpu& cpu : cpus) siblings.push_back({cpu.core ? long{*cpu.core} : -1 - static_cast<long>(cpu.id), cpu});
  std::sort(siblings.begin(), siblings.end(), [](const Sibling& a, const Sibling& b) {
    return a.key != b.key ? a.key < b.key : a.cpu.id < b.cpu.id;
  });
  return siblings;
}

std::vector<model::Cpu> cpus_of_machine(const model::Machine& machine, const std::optional<CpuSet>& allowed) {
  if (!machine.cpus.empty()) return machine.cpus;
  CpuSet known = allowed.value_or(CpuSet());
  if (!allowed)
    for (const model::Gpu& gpu : machine.gpus)
      known = known | gpu.near_cpus.node.value_or(CpuSet()) | gpu.near_cpus.package.value_or(CpuSet());
  std::vector<model::Cpu> cpus;
  for (const unsigned id : known.to_vector()) cpus.push_back({.id = id, .core = {}, .l3 = {}, .numa = {}, .package = {}});
  return cpus;
}

// All online cores, ascending, with all their PUs.
std::vector<Core> online_cores(const std::vector<model::Cpu>& cpus) {
  const std::vector<Sibling> siblings = by_core(cpus);
  std::vector<Core> cores;
  for (std::size_t i = 0; i < siblings.size();) {
    const model::Cpu& first = siblings[i].cpu;
    Core& core = cores.emplace_back();
    core.first = first.id;
    core.l3 = first.l3, core.numa = first.numa, core.package = first.package;
    for (const long key = siblings[i].key; i < siblings.size() && siblings[i].key == key; ++i)
      if (core.pus.empty() || core.pus.back() != siblings[i].cpu.id) core.pus.push_back(siblings[i].cpu.id);
    core.threads = static_cast<unsigned>(core.pus.size());
  }
  std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) { return a.first < b.first; });
  return cores;
}

bool any_in(const std::vector<unsigned>& pus, const CpuSet& cpus) {
  return std::any_of(pus.begin(), pus.end(), [&](unsigned pu) { return cpus.contains(pu); });
}

// Which of the cores, online and in order, are nobody's.
std::vector<bool> reserved(const std::vector<Core>& cores, const model::Reserve& reserve) {
  std::vector<bool> taken(cores.size());
  std::set<int> seen;                          // L3 caches
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (const auto* list = std::get_if<CpuSet>(&reserve)) taken[i] = any_in(cores[i].pus, *list);
    if (std::holds_alternative<model::FirstOfL3>(reserve)) taken[i] = cores[i].l3 && seen.insert(*cores[i].l3).second;
  }
  return taken;
}

// "node 3", "nodes 0,1"; "" when a number is not known.
std::string numbered(const char* what, const std::set<std::optional<int>>& numbers) {
  if (numbers.contains(std::nullopt)) return "";
  std::vector<std::string> texts;
  for (const auto& number : numbers) texts.push_back(std::to_string(*number));
  return fmt::format("{}{} {}", what, texts.size() == 1 ? "" : "s", join(texts, ","));
}

}  // namespace

Cores::Cores(const model::Machine& machine, const std::optional<CpuSet>& allowed, const model::Reserve& reserve) {
  std::vector<Core> online = online_cores(cpus_of_machine(machine, allowed));
  const std::vector<bool> kept_free = reserved(online, reserve);
  std::vector<Core> left;
  for (std::size_t i = 0; i < online.size(); ++i) {
    for (const unsigned pu : online[i].pus) online_.add(pu);
    if (allowed) std::erase_if(online[i].pus, [&](unsigned pu) { return !allowed->contains(pu); });
    if (online[i].pus.empty()) continue;
    (kept_free[i] ? left : cores_).push_back(std::move(online[i]));
  }
  if (std::holds_alternative<model::FirstOfL3>(reserve) && left.empty() && !cores_.empty() && !cores_.front().l3)
    trouble_ = "the L3 caches are not known, so none of their cores is reserved";
  if (cores_.empty() && !left.empty()) {
    trouble_ = "every allowed core is reserved, so the reserve is ignored";
    cores_ = std::move(left);
  }
}

CoreList Cores::every() const {
  CoreList list(cores_.size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = i;
  return list;
}

CoreList Cores::in(const CpuSet& cpus) const {
  CoreList list;
  for (std::size_t i = 0; i < cores_.size(); ++i)
    if (any_in(cores_[i].pus, cpus)) list.push_back(i);
  return list;
}

CpuSet Cores::cpus_of(const CoreList& list, model::Smt smt) const {
  CpuSet cpus;
  for (const std::size_t core : list) {
    for (const unsigned cpu : cores_[core].pus) {
      cpus.add(cpu);
      if (smt == model::Smt::one) break;
    }
  }
  return cpus;
}

std::string Cores::place_of(const CoreList& list) const {
  if (list.empty()) return "no CPU";
  std::set<std::optional<int>> nodes, packages;
  for (const std::size_t core : list) nodes.insert(cores_[core].numa), packages.insert(cores_[core].package);
  const auto in_packages = static_cast<std::size_t>(
      std::count_if(cores_.begin(), cores_.end(), [&](const Core& core) { return packages.contains(core.package); }));
  const std::string node = numbered("node", nodes), package = numbered("package", packages);
  const bool whole = in_packages == list.size() && !package.empty();
  if (nodes.size() == 1 && !node.empty()) return node;
  if (whole) return package;
  if (!node.empty()) return node;
  return package.empty() ? "CPUs " + cpus_of(list, model::Smt::all).to_string() : package;
}

}  // namespace thole::plan
