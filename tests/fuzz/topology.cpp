// What other programs say of machines, and our own cache of one: understood, or refused; never a machine that cannot be written
// and read again. The first byte chooses.
#include <set>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "host/import/import.hpp"
#include "host/topology/hwloc_scan.hpp"
#include "host/topology/topology.hpp"
#include "model/json.hpp"

using namespace thole;
using fuzz::check;

namespace {

void expect_sound(const model::Machine& machine) {
  std::set<model::PciAddress> known;
  for (const model::Gpu& gpu : machine.gpus)
    if (gpu.pci) known.insert(*gpu.pci);
  for (const model::Nic& nic : machine.nics)
    if (nic.pci) known.insert(*nic.pci);
  for (const model::Gpu& gpu : machine.gpus)
    for (const model::Link& link : gpu.links) check(known.contains(link.to), "a link leads to a GPU or a NIC of the machine");
  model::machine_from_json(model::parse_json(model::dump(model::to_json(machine)), "what capture wrote"));
}

template <class Read>
void read_or_refuse(Read read) {
  model::Machine machine;
  try {
    machine = read();
  } catch (const Error& error) {
    check(error.code() == ErrorCode::usage, "a file that is not understood is the caller's mistake");
    return;
  }
  expect_sound(machine);
}

}  // namespace

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (const std::uint8_t choice = input.byte(); choice % 4) {
    case 0:
    case 1: read_or_refuse([&] { return host::import_text(std::string(input.rest()), "fuzz"); }); break;
    case 2:
      if (auto topology = host::topology_from_text(input.rest())) {
        check(host::topology_from_text(host::to_text(*topology)) == topology, "a topology is the same after the text form");
        expect_sound(host::around(*topology, {}));
      }
      break;
    case 3: {
      std::string once(input.rest());
      host::downgrade_hwloc_xml(once);
      std::string twice = once;
      host::downgrade_hwloc_xml(twice);
      check(once == twice, "an export of version 2 is left as it is");
      break;
    }
  }
  return 0;
}
