// Outer allotments and --on words: one variable a line ("NAME=value"), on a machine chosen by the first byte. Whatever they
// say, they only narrow.
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "host/gpu/file/machine_file.hpp"
#include "plan/place/select.hpp"
#include "test_folders.hpp"

using namespace thole;

namespace {

model::Snapshot read(const char* name) {
  host::MachineFile file(name, {THOLE_SOURCE_DIR "/machines"});
  model::Snapshot snapshot;
  snapshot.machine = file.around(file.read(Millis(0)).gpus, Millis(0));
  return snapshot;
}

}  // namespace

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  static const model::Snapshot machines[] = {read("dgx-a100"),  read("mig-a100"), read("mi250x"),
                                             read("intel-max"), read("none"),     read("mixed-workstation")};
  fuzz::Input input(data, size);
  model::Snapshot snapshot = machines[input.byte() % std::size(machines)];
  const std::vector<model::Unit> units = model::units(snapshot.machine);
  plan::Environment environment;
  std::vector<std::string> words;
  while (!input.rest().empty()) {
    std::string line = input.line();
    std::size_t equals = line.find('=');
    if (equals == std::string::npos) words.push_back(line);
    else if (line.starts_with("outer=")) snapshot.machine.outer.visible_devices = line.substr(equals + 1);
    else environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (auto pbs = environment.find("PBS_GPUFILE"); pbs != environment.end())
    pbs->second = plan::gpus_of_host(pbs->second, "node1");
  plan::Outer outer = plan::outer_allotment(snapshot, units, environment);
  fuzz::check(outer.visible.size() == units.size(), "an allotment says yes or no of every unit");
  bool all = std::find(outer.visible.begin(), outer.visible.end(), false) == outer.visible.end();
  fuzz::check(all || !outer.named_by.empty(), "what narrows is named");
  for (const std::string& word : words) try {
      std::vector<std::size_t> found = plan::resolve(word, snapshot, units);
      fuzz::check(!found.empty(), "a word names something or is an error");
      for (std::size_t unit : found) fuzz::check(unit < units.size(), "it names units of this machine");
    } catch (const Error& error) {
      fuzz::check(error.code() == ErrorCode::usage, "a word that names nothing is a usage error");
    }
  return 0;
}
