// The cores of a machine that a plan may use: online, allowed, not reserved; whole ones, at any number of threads a core.
//
// Where a machine names no CPUs at all, those allowed, else those that are near some GPU, are taken for cores.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

struct Core {
  std::vector<unsigned> pus;                   // its usable PUs, ascending
  unsigned first = 0;                          // lowest online PU, allowed or not: the order of cores
  unsigned threads = 1;                        // online PUs, allowed or not: tells big cores from small ones on hybrid machines
  std::optional<int> l3, numa, package;
};

using CoreList = std::vector<std::size_t>;     // indices into Cores::all(), ascending

class Cores {
 public:
  // A PU whose core is not known is a core of its own.
  Cores(const model::Machine& machine, const std::optional<model::CpuSet>& allowed, const model::Reserve& reserve);

  const std::vector<Core>& all() const { return cores_; }
  const model::CpuSet& online() const { return online_; }
  const std::string& trouble() const { return trouble_; }  // why the reserve could not be kept; "" = all is well

  CoreList every() const;
  CoreList in(const model::CpuSet& cpus) const;  // those with a PU in the set
  model::CpuSet cpus_of(const CoreList& cores, model::Smt smt) const;
  std::string place_of(const CoreList& cores) const;  // "node 3", "package 0", "nodes 0,1", "CPUs 0-3" where nothing is known

 private:
  std::vector<Core> cores_;                    // ascending by `first`
  model::CpuSet online_;
  std::string trouble_;
};

}  // namespace thole::plan
