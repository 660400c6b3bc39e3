// Placing on a machine by GPU numbers, for tests of placement.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>

#include "plan/place/links.hpp"
#include "plan/place/place.hpp"
#include "support/machines.hpp"

namespace thole::test {

using Mask = std::uint32_t;                    // a set of GPUs, GPU 0 the lowest bit

// The links of a machine with what every set of its GPUs is worth, worked out the slow way.
class LinkGraph {
 public:
  explicit LinkGraph(const model::Machine& machine) : units_(whole(machine)), links_(machine, units_, all(units_.size())) {
    snapshot_.machine = machine;
  }

  std::size_t size() const { return units_.size(); }
  bool any_fast(Mask free) const {
    bool fast = false;
    each_pair(free, [&](std::size_t a, std::size_t b) { fast = fast || links_.fast(a, b); });
    return fast;
  }

  long sum(Mask set) const {
    long sum = 0;
    each_pair(set, [&](std::size_t a, std::size_t b) { sum += links_.score(a, b); });
    return sum;
  }
  long weakest(Mask set) const {
    long weakest = 1L << 40;
    each_pair(set, [&](std::size_t a, std::size_t b) { weakest = std::min<long>(weakest, links_.score(a, b)); });
    return weakest;
  }

  // How many NUMA nodes, or packages, the GPUs of a set are near; all that is not known is one.
  long nodes(Mask set) const { return places(set, [&](std::size_t i) { return gpu(i).numa; }); }
  long packages(Mask set) const {
    return places(set, [&](std::size_t i) -> std::optional<int> {
      for (const model::Cpu& cpu : snapshot_.machine.cpus)
        if (gpu(i).numa ? cpu.numa == gpu(i).numa : gpu(i).near_cpus.node && gpu(i).near_cpus.node->contains(cpu.id))
          return cpu.package;
      return std::nullopt;
    });
  }

  plan::Placement place(Mask free, unsigned count, model::Shape shape = model::Shape::collective, Mask must = 0) const {
    std::vector<plan::Candidate> candidates;
    for (std::size_t i = 0; i < size(); ++i)
      if (free >> i & 1) candidates.push_back({i, false, true, (must >> i & 1) != 0});
    model::Request request;
    request.gpus = count;
    request.shape = shape;
    return plan::place(request, snapshot_, units_, candidates).value();
  }
  Mask placed(Mask free, unsigned count, model::Shape shape = model::Shape::collective, Mask must = 0) const {
    Mask set = 0;
    for (const std::size_t unit : place(free, count, shape, must).units) set |= Mask{1} << unit;
    return set;
  }

 private:
  const model::Gpu& gpu(std::size_t i) const { return snapshot_.machine.gpus[i]; }
  template <class Place>
  long places(Mask set, Place place) const {
    std::set<std::optional<int>> seen;
    for (std::size_t i = 0; i < size(); ++i)
      if (set >> i & 1) seen.insert(place(i));
    return static_cast<long>(seen.size());
  }
  static std::vector<model::Unit> whole(const model::Machine& machine) {
    std::vector<model::Unit> units;
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
      units.push_back({machine.gpus[gpu].key(), gpu, std::nullopt, std::to_string(gpu)});
    return units;
  }
  static std::vector<std::size_t> all(std::size_t n) {
    std::vector<std::size_t> numbers(n);
    for (std::size_t i = 0; i < n; ++i) numbers[i] = i;
    return numbers;
  }
  template <class Visit>
  void each_pair(Mask set, Visit visit) const {
    for (std::size_t a = 0; a < size(); ++a)
      for (std::size_t b = a + 1; b < size(); ++b)
        if ((set >> a & 1) && (set >> b & 1)) visit(a, b);
  }

  model::Snapshot snapshot_;
  std::vector<model::Unit> units_;
  plan::Links links_;
};

// Calls visit(set) for every set of `count` GPUs of `free`, in PCI order: 0,1 before 0,2 before 1,2.
template <class Visit>
void each_subset(Mask free, unsigned count, Visit visit, Mask chosen = 0) {
  if (count == 0) return visit(chosen);
  for (Mask rest = free; std::popcount(rest) >= static_cast<int>(count); rest &= rest - 1) {
    const Mask first = rest & -rest;
    each_subset(rest ^ first, count - 1, visit, chosen | first);
  }
}

}  // namespace thole::test
