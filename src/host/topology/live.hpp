// Port TopologySource for this machine (or a captured tree): from the cache, and where that has nothing from a probe.
#pragma once

#include <optional>
#include <string>

#include "host/topology/cache.hpp"
#include "host/topology/reader.hpp"
#include "port/topology_source.hpp"

namespace thole::host {

struct LiveTopologyOptions {
  std::string root;                        // prefix of every file read; "" is this machine
  TopologyReaderOptions reader;            // its runtime_dir also holds the cache
};

// Cheap to ask again: a handful of small files tell whether anything has changed.
class LiveTopology final : public port::TopologySource {
 public:
  explicit LiveTopology(LiveTopologyOptions options);

  model::Machine around(std::vector<model::Gpu> gpus, Millis patience) override;
  std::string problem() const override { return known_ ? known_->problem : ""; }

 private:
  void refresh(Millis patience);

  std::string root_;
  Tree tree_;
  TopologyReader reader_;
  TopologyCache cache_;
  std::string key_;
  std::optional<Topology> known_;          // as of key_
};

}  // namespace thole::host
