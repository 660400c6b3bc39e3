// Every shipped machine as it is read, listed and printed.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "host/gpu/file/machine_file.hpp"
#include "host/gpu/file/search.hpp"
#include "model/json.hpp"
#include "model/unit.hpp"
#include "support/golden.hpp"
#include "test_folders.hpp"

namespace thole {
namespace {

const std::string shipped = THOLE_SOURCE_DIR "/machines";

model::Holding holding(const model::Unit& unit) {
  model::Holding holding;
  holding.key = unit.key;
  holding.id = "00112233aabbccdd";
  holding.held = holding.verified = true;
  holding.uid = 1000;
  holding.user = "anna";
  holding.pid = 4711;
  holding.since = *parse_iso("2026-11-21T12:00:00Z");
  holding.until = *parse_iso("2026-11-21T20:00:00Z");
  holding.command = "python train.py";
  return holding;
}

model::Waiting waiting(const std::vector<model::Unit>& units) {
  model::Waiting waiting;
  waiting.ticket = 42;
  waiting.uid = 1001;
  waiting.user = "ben";
  waiting.pid = 4712;
  for (const model::Unit& unit : units) waiting.eligible.push_back(unit.key);
  waiting.count = 1;
  waiting.time = Seconds(1800);
  waiting.since = *parse_iso("2026-11-21T14:00:00Z");
  return waiting;
}

// One line for each element of a list: a change shows as one changed line.
std::string lines(const model::Json& status) {
  std::string text = "{\n";
  for (const auto& [key, value] : status.items()) {
    std::string end = &value == &status.back() ? "\n" : ",\n";
    if (!value.is_array() || value.empty()) {
      text += fmt::format("\"{}\": {}{}", key, model::dump(value, -1), end);
      continue;
    }
    text += fmt::format("\"{}\": [\n", key);
    for (const model::Json& element : value)
      text += " " + model::dump(element, -1) + (&element == &value.back() ? "]" + end : ",\n");
  }
  return text + "}\n";
}

std::string shown_machine(const std::string& name) {
  host::MachineFile file(name, {shipped});
  model::Snapshot snapshot;
  port::Reading reading = file.read(Millis(0));
  snapshot.machine = file.around(reading.gpus, Millis(0));
  reading.observation.source = name + ".json";
  snapshot.observations = {reading.observation};
  snapshot.simulated = true;
  snapshot.taken_at = *parse_iso("2026-11-21T14:20:05Z");
  std::vector<model::Unit> units = model::units(snapshot.machine);
  std::string text;
  for (const model::Unit& unit : units)
    text += fmt::format("// {} {} {} {}\n", unit.label, unit.key, unit.model_of(snapshot.machine),
                        format_mib(unit.memory_mib_of(snapshot.machine).value_or(0)));
  std::vector<model::Holding> holdings;
  if (!units.empty()) holdings.push_back(holding(units.front()));
  return text + lines(model::status_json(snapshot, holdings, {waiting(units)}));
}

class ShippedMachine : public testing::TestWithParam<std::string> {};

TEST_P(ShippedMachine, IsReadListedAndPrintedAsRecorded) {
  test::expect_as_recorded("machine_" + GetParam() + ".json", shown_machine(GetParam()));
}

TEST_P(ShippedMachine, PrintsWhatReadsBackAsItself) {
  host::MachineFile file(GetParam(), {shipped});
  model::Machine machine = file.around(file.read(Millis(0)).gpus, Millis(0));
  model::for_each_process(machine.gpus, [](model::GpuProcess& process) { process.uid.reset(); });   // of this host
  EXPECT_EQ(model::machine_from_json(model::parse_json(shown_machine(GetParam()), "status")), machine);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedMachine, testing::ValuesIn(host::shipped_machines({shipped})), [](const auto& machine) {
  std::string name = machine.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(ShippedMachines, AreThoseThatThePagesName) {
  EXPECT_EQ(join(host::shipped_machines({shipped}), " "),
            "dgx-a100 dgx-h100 dgx1v display hgx-h200 intel-max mi250x mig-a100 mixed-workstation none");
}

}  // namespace
}  // namespace thole
