// The cores of a machine that a plan may use: online, allowed, not reserved; whole ones, at any number of threads a core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

struct Core {
  model::CpuSet cpus;                          // its usable PUs
  unsigned first = 0;                          // lowest online PU, allowed or not: the order of cores
  unsigned threads = 1;                        // online PUs, allowed or not: tells big cores from small ones on hybrid machines
  std::optional<int> l3, numa, package;
};

using CoreList = std::vector<std::size_t>;     // indices into Cores::all(), ascending

class Cores {
 public:
  // A PU whose core is not known is a core of its own. Without any PU known, those of `allowed` are taken as such.
  Cores(const model::Machine& machine, const std::optional<model::CpuSet>& allowed, const model::Reserve& reserve);

  const std::vector<Core>& all() const { return cores_; }
  const model::CpuSet& online() const { return online_; }
  const std::string& trouble() const { return trouble_; }  // why the reserve could not be kept; "" = all is well

  CoreList every() const;
  CoreList in(const model::CpuSet& cpus) const;  // those with a PU in the set
  model::CpuSet cpus_of(const CoreList& cores, model::Smt smt) const;
  std::string place_of(const CoreList& cores) const;  // "node 3", "nodes 0,1", "package 0", "CPUs 0-3" where nothing is known

 private:
  void take_out(const model::Reserve& reserve);

  std::vector<Core> cores_;                    // ascending by `first`
  std::vector<model::CpuSet> siblings_;        // of each, all online PUs
  model::CpuSet online_;
  std::string trouble_;
};

}  // namespace thole::plan
