#include "wire/machines.hpp"

#include "host/gpu/file/machine_file.hpp"
#include "host/gpu/file/search.hpp"
#include "host/topology/complete.hpp"
#include "host/topology/reader.hpp"

namespace thole::wire {

namespace {

host::ReadTopology topology_reader(const Settings& settings) {
  const host::TopologyReader reader({settings.program, "", settings.hwloc_library});
  return [reader](const std::string& xml) { return reader.read_xml(xml); };
}

}  // namespace

Machines::Machines(const Settings& settings)
    : settings_(settings), directories_(host::machine_directories(settings.machines_dir, settings.program)) {}
Machines::~Machines() = default;

void Machines::complete(model::Machine& machine) const {
  if (machine.hwloc_xml.empty()) return;
  host::complete(machine, topology_reader(settings_)(machine.hwloc_xml));
  machine.hwloc_xml.clear();
}

const model::Snapshot& Machines::named(const std::string& name) {
  auto found = known_.find(name);
  if (found == known_.end()) {
    auto file = std::make_unique<host::MachineFile>(name, directories_, topology_reader(settings_));
    found = known_.emplace(name, Known{std::move(file), {}}).first;
  }
  Known& known = found->second;
  if (!known.file->changed()) return known.snapshot;
  known.snapshot.simulated = true;
  known.snapshot.machine = known.file->around(known.file->read(Millis{0}).gpus, Millis{0});
  return known.snapshot;
}

}  // namespace thole::wire
