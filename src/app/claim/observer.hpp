// Reads the machine through its backends and keeps the latest snapshot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/machine.hpp"
#include "model/unit.hpp"
#include "port/clock.hpp"
#include "port/gpu_backend.hpp"
#include "port/topology_source.hpp"

namespace thole::app {

// Owns the sources of one machine. `look` is cheap when nothing can have changed (a machine file), and never takes longer
// than its patience otherwise. Not thread-safe: one Observer a thread, or a lock around it.
class Observer {
 public:
  Observer(std::vector<std::unique_ptr<port::GpuBackend>> backends, port::TopologySource* topology,
           const port::Clock& clock, bool simulated);

  // Reads again what can have changed, as far as the question needs it. The reference stays valid until the next look.
  const model::Snapshot& look(Millis patience, const port::Question& question = {});

  // Why the CPUs of the snapshot are not known; "" when they are.
  std::string topology_problem() const;

  // As port::GpuBackend's, of GPUs of the last look, by key; nothing when it is not known of one of them.
  std::optional<std::uint64_t> peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                               Millis patience);

  // As port::GpuBackend's, of all, now (any thread); and as it was just before the last look.
  port::Numbering numbering() const;
  const std::string& numbering_seen() const { return numbering_seen_; }

  void rest();  // see port::GpuBackend::rest

  const model::Snapshot& snapshot() const { return snapshot_; }
  const std::vector<model::Unit>& units() const { return units_; }  // of snapshot()
  bool simulated() const { return snapshot_.simulated; }

 private:
  struct Source {
    std::unique_ptr<port::GpuBackend> backend;
    bool read_before = false;
  };
  void merge(Millis patience);

  std::vector<Source> sources_;
  std::vector<port::Reading> readings_;        // parallel to sources_
  port::TopologySource* topology_;             // may be null; not owned: a machine file is a backend too
  const port::Clock& clock_;
  std::string numbering_seen_;
  model::Snapshot snapshot_;
  std::vector<model::Unit> units_;
};

}  // namespace thole::app
