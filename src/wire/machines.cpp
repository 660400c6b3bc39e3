#include "wire/machines.hpp"

#include "host/gpu/file/machine_file.hpp"
#include "host/gpu/file/search.hpp"

namespace thole::wire {

Machines::Machines(const Settings& settings) : directories_(host::machine_directories(settings.machines_dir, settings.program)) {}
Machines::~Machines() = default;

const model::Snapshot& Machines::named(const std::string& name) {
  auto found = known_.find(name);
  if (found == known_.end())
    found = known_.emplace(name, Known{std::make_unique<host::MachineFile>(name, directories_), {}}).first;
  Known& known = found->second;
  if (!known.file->changed()) return known.snapshot;
  known.snapshot.simulated = true;
  known.snapshot.machine = known.file->around(known.file->read(Millis{0}).gpus, Millis{0});
  return known.snapshot;
}

}  // namespace thole::wire
