// Reads topologies with hwloc in a process of its own: `thole __probe topology`.
//
// hwloc asks every device about itself, one of which may hang; it is steered by some fifty environment variables, loads
// whatever plugins it finds (among them the vendors' libraries), and parses files of strangers. None of that belongs in a
// program that runs jobs or in somebody's Python process,
// so it happens in a probe with a deadline and an environment of its own.
#pragma once

#include <string>

#include "base/time.hpp"
#include "host/probe/channel.hpp"
#include "host/topology/topology.hpp"
#include "model/machine.hpp"

namespace thole::host {

struct TopologyReaderOptions {
  std::string program;                     // runs `__probe topology`: this very binary
  std::string runtime_dir;                 // per user: see ProbeOptions
  std::string hwloc_library;               // instead of those found by hwloc_paths(); "" = search
};

class TopologyReader {
 public:
  explicit TopologyReader(TopologyReaderOptions options) : options_(std::move(options)) {}

  // The machine whose files lie under `root` ("" is this one). Does not throw: see Topology::problem.
  Topology read_machine(const std::string& root, Millis patience) const;

  // What an hwloc XML export says: CPUs, memory, GPUs, NICs, links. Throws Error(usage) when it is none, Error(unavailable)
  // when hwloc cannot be used.
  model::Machine read_xml(const std::string& path) const;

 private:
  TopologyReaderOptions options_;
};

// The child side. Answers one question and ends.
int serve_topology_probe(ProbeChannel channel);

}  // namespace thole::host
