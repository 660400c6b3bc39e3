// The topology of this machine, kept between runs in the user's own runtime directory.
//
// Read whole, so that a run inside a cpuset neither narrows it nor needs it read anew.
#pragma once

#include <optional>
#include <string>

#include "host/kept_text.hpp"
#include "host/topology/topology.hpp"

namespace thole::host {

// Boot id, online CPUs and memory nodes, names of NICs, version of thole. "" for a tree without a boot id, a captured one:
// it is never kept.
std::string topology_key(const Tree& tree);

class TopologyCache {
 public:
  // `directory`: of this user alone; made when first needed. "" keeps nothing.
  explicit TopologyCache(std::string directory) : text_(std::move(directory), "topology") {}

  std::optional<Topology> find(const std::string& key) const;
  void keep(const std::string& key, const Topology& topology) const;  // silently not, where it cannot be written

 private:
  KeptText text_;
};

}  // namespace thole::host
