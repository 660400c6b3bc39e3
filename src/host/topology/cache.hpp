// The topology of this machine, kept between runs in the user's own runtime directory.
//
// Read whole and kept under a key of all that can change it while the machine runs, so that it is never out of date and a run
// inside a cpuset neither narrows it nor needs it read anew. What lies there in another's name, or is damaged, is not believed.
#pragma once

#include <optional>
#include <string>

#include "host/topology/topology.hpp"

namespace thole::host {

// Boot id, online CPUs and memory nodes, names of NICs, version of thole. "" for a tree without a boot id, a captured one:
// it is never kept.
std::string topology_key(const Tree& tree);

class TopologyCache {
 public:
  // `directory`: of this user alone; made when first needed. "" keeps nothing.
  explicit TopologyCache(std::string directory) : directory_(std::move(directory)) {}

  std::optional<Topology> find(const std::string& key) const;
  void keep(const std::string& key, const Topology& topology) const;  // silently not, where it cannot be written

 private:
  std::string directory_;
};

}  // namespace thole::host
