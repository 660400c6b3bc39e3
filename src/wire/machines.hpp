// Simulated machines by name, each read once and again when its file changes: for `thole plan --batch`.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "model/machine.hpp"
#include "wire/settings.hpp"

namespace thole::host {
class MachineFile;
}

namespace thole::wire {

class Machines {
 public:
  explicit Machines(const Settings& settings);
  ~Machines();

  // A path, a shipped name or a shorthand. Throws Error(usage) when it is none of these. Valid until the next call.
  const model::Snapshot& named(const std::string& name);

  // Adds what the machine's `hwloc_xml` says; a path without a leading / is meant from the working directory.
  void complete(model::Machine& machine) const;

 private:
  struct Known {
    std::unique_ptr<host::MachineFile> file;
    model::Snapshot snapshot;
  };
  const Settings& settings_;
  std::vector<std::string> directories_;
  std::map<std::string, Known> known_;
};

}  // namespace thole::wire
