#include "plan/bind_cores.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"

namespace thole::plan {

using model::CpuSet;

namespace {

struct Sibling {
  long key;                                    // PUs with one key are one core
  const model::Cpu* cpu;
};

// Every PU with the core it belongs to, core by core. Core numbers are made apart from those of lone PUs by their sign.
std::vector<Sibling> by_core(const model::Machine& machine) {
  std::vector<Sibling> siblings;
  siblings.reserve(machine.cpus.size());
  for (const model::Cpu& cpu : machine.cpus)
    siblings.push_back({cpu.core ? static_cast<long>(*cpu.core) : -1 - static_cast<long>(cpu.id), &cpu});
  std::sort(siblings.begin(), siblings.end(), [](const Sibling& a, const Sibling& b) {
    return a.key != b.key ? a.key < b.key : a.cpu->id < b.cpu->id;
  });
  return siblings;
}

// "node 3", "nodes 0,1"; "" when one of the numbers is not known.
template <class Number>
std::string numbered(const char* what, const CoreList& list, const std::vector<Core>& cores, Number number) {
  std::set<int> numbers;
  for (const std::size_t core : list) {
    if (!number(cores[core])) return "";
    numbers.insert(*number(cores[core]));
  }
  std::vector<std::string> texts;
  for (const int n : numbers) texts.push_back(std::to_string(n));
  return fmt::format("{}{} {}", what, texts.size() == 1 ? "" : "s", join(texts, ","));
}

}  // namespace

Cores::Cores(const model::Machine& machine, const std::optional<CpuSet>& allowed, const model::Reserve& reserve) {
  const std::vector<Sibling> siblings = by_core(machine);
  for (std::size_t i = 0; i < siblings.size();) {
    const model::Cpu& first = *siblings[i].cpu;
    Core core;
    core.first = first.id;
    core.threads = 0;
    core.l3 = first.l3, core.numa = first.numa, core.package = first.package;
    CpuSet together;
    for (const long key = siblings[i].key; i < siblings.size() && siblings[i].key == key; ++i) {
      const unsigned cpu = siblings[i].cpu->id;
      online_.add(cpu);
      together.add(cpu);
      ++core.threads;
      if (!allowed || allowed->contains(cpu)) core.cpus.add(cpu);
    }
    if (core.cpus.empty() && !std::holds_alternative<model::FirstOfL3>(reserve)) continue;
    cores_.push_back(std::move(core));
    siblings_.push_back(std::move(together));
  }
  if (machine.cpus.empty() && allowed) {
    online_ = *allowed;
    for (const unsigned cpu : allowed->to_vector()) {
      Core core;
      core.cpus.add(cpu);
      core.first = cpu;
      cores_.push_back(core);
      siblings_.push_back(core.cpus);
    }
  }
  take_out(reserve);
}

// Also puts the cores into their order, and drops those that have nothing to give.
void Cores::take_out(const model::Reserve& reserve) {
  std::vector<std::size_t> order;
  std::map<int, std::size_t> first_of;         // L3 cache -> its first core
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    order.push_back(i);
    if (!cores_[i].l3) continue;
    const auto [known, fresh] = first_of.try_emplace(*cores_[i].l3, i);
    if (!fresh && cores_[i].first < cores_[known->second].first) known->second = i;
  }
  const auto reserved = [&](std::size_t i) {
    if (const auto* list = std::get_if<CpuSet>(&reserve)) return !(siblings_[i] & *list).empty();
    if (std::holds_alternative<model::FirstOfL3>(reserve)) return cores_[i].l3 && first_of.at(*cores_[i].l3) == i;
    return false;
  };
  if (std::holds_alternative<model::FirstOfL3>(reserve) && first_of.empty() && !cores_.empty())
    trouble_ = "the L3 caches are not known, so none of their cores is reserved";
  std::erase_if(order, [&](std::size_t i) { return cores_[i].cpus.empty(); });
  std::vector<std::size_t> left;
  for (const std::size_t i : order)
    if (!reserved(i)) left.push_back(i);
  if (left.empty() && !order.empty()) {
    trouble_ = "every allowed core is reserved, so the reserve is ignored";
    left = order;
  }
  std::sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return cores_[a].first < cores_[b].first; });
  std::vector<Core> kept;
  kept.reserve(left.size());
  for (const std::size_t i : left) kept.push_back(std::move(cores_[i]));
  cores_ = std::move(kept);
  siblings_.clear();
}

CoreList Cores::every() const {
  CoreList list(cores_.size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = i;
  return list;
}

CoreList Cores::in(const CpuSet& cpus) const {
  CoreList list;
  for (std::size_t i = 0; i < cores_.size(); ++i)
    if (!(cores_[i].cpus & cpus).empty()) list.push_back(i);
  return list;
}

CpuSet Cores::cpus_of(const CoreList& list, model::Smt smt) const {
  CpuSet cpus;
  for (const std::size_t core : list) {
    for (const unsigned cpu : cores_[core].cpus.to_vector()) {
      cpus.add(cpu);
      if (smt == model::Smt::one) break;
    }
  }
  return cpus;
}

std::string Cores::place_of(const CoreList& list) const {
  if (list.empty()) return "no CPU";
  std::string text = numbered("node", list, cores_, [](const Core& core) { return core.numa; });
  if (text.empty()) text = numbered("package", list, cores_, [](const Core& core) { return core.package; });
  if (text.empty()) text = "CPUs " + cpus_of(list, model::Smt::all).to_string();
  return text;
}

}  // namespace thole::plan
