// Backend "file": a captured or simulated machine, read from a machine file instead of a driver.
//
// How this works. The file is the machine: its GPUs and also their present use. It is read when made, and again whenever its
// stamp (device, inode, size, mtime) differs, so that editing it while thole runs is what a driver's news would be. A file
// caught half-written, or broken by an edit, keeps the last good reading and says so in the observation. Processes marked
// "watch": true are real ones of this host; when they end, they leave the use without an edit.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/gpu/file/watch.hpp"
#include "port/gpu_backend.hpp"
#include "port/topology_source.hpp"

namespace thole::host {

// Reads the topology that a machine file names by "hwloc_xml". Throws Error.
using ReadTopology = std::function<model::Machine(const std::string& path)>;

class MachineFile final : public port::GpuBackend, public port::TopologySource {
 public:
  // `name`: a path, the name of a file in `directories`, or a shorthand such as "8xA100". Throws Error(usage) when it is
  // none of these (with the nearest names) or when the file is no valid machine (with the position of the mistake).
  MachineFile(const std::string& name, const std::vector<std::string>& directories, ReadTopology read_topology = {});

  std::string name() const { return "file"; }
  bool present() const override { return true; }
  bool changed() override;                        // one stat and one small read per watched process
  port::Numbering numbering() const override;         // the stamp
  using port::GpuBackend::read;
  // Never waits: a file's "hung" GPU only reads as one that did not answer.
  port::Reading read(Millis patience, const port::Question& question) override;

  // From the "accounts" of the file's GPUs.
  std::optional<std::uint64_t> peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                               Millis patience) override;

  model::Machine around(std::vector<model::Gpu> gpus, Millis patience) override;
  std::string problem() const override { return ""; }   // a file without CPUs is a machine without known CPUs, not a fault

  const std::string& path() const { return path_; }   // "" for a shorthand
  const std::string& machine_name() const { return machine_.name; }

 private:
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::optional<Stamp> stamp() const;
  void load();                                    // throws Error(usage)
  void refresh();                                 // load() if the file has changed; keeps the last good on trouble

  void add_topology();                            // of the file named by hwloc_xml

  ReadTopology read_topology_;
  std::string path_;
  model::Machine machine_;
  std::optional<Stamp> loaded_;                   // of the content last tried; nothing: look again in any case
  std::string problem_;
  Watch watch_;
  bool unread_ = true;                            // news that read() has not yet given
};

}  // namespace thole::host
