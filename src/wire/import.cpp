#include "wire/import.hpp"

#include <filesystem>

#include "host/import/import.hpp"
#include "wire/wire.hpp"

namespace thole::wire {

namespace {

// What the vendors' backends find in the tree. No program, no probe: the driver's library would tell of this machine instead.
std::vector<model::Gpu> gpus_in(const std::string& root, const Settings& settings) {
  Settings elsewhere = settings;
  elsewhere.machine.clear();
  elsewhere.program.clear();
  elsewhere.sysroot = root;
  Wire wire(std::move(elsewhere));
  return wire.observer().look(Millis{0}).machine.gpus;
}

}  // namespace

model::Machine import_machine(const Settings& settings, const std::string& path, std::vector<std::string>& doubts) {
  const host::TopologyReader reader({settings.program, "", settings.hwloc_library});
  std::error_code missing;
  if (path == "-" || !std::filesystem::is_directory(path, missing)) return host::import_file(path, reader, &doubts);
  const std::string root = host::root_in(std::filesystem::absolute(path).string());
  return host::import_tree(root, gpus_in(root, settings), reader);
}

}  // namespace thole::wire
