#include "app/show/capture.hpp"

#include <map>

#include "base/text.hpp"

namespace thole::app {

namespace {

void make_idle(model::Use& use) {
  use = {};
  use.memory_used_mib = std::uint64_t{0};
  use.utilization_percent = 0.0;
  use.processes = std::vector<model::GpuProcess>{};
}

// Of the driver's own form, so that all that reads UUIDs still does. The first block differs: it is what people type.
std::string numbered(std::string_view prefix, std::size_t number) {
  return fmt::format("{}{:08x}-0000-4000-8000-{:012x}", prefix, number, number);
}

void make_anonymous(model::Machine& machine) {
  machine.name = "captured";
  std::map<std::string, std::string> names;     // "user1", "user2": the same for the same user throughout the file
  model::for_each_process(machine.gpus, [&](model::GpuProcess& process) {
    if (!process.user.empty())
      process.user = names.try_emplace(process.user, fmt::format("user{}", names.size() + 1)).first->second;
    process.command.clear();
  });
  std::size_t instances = 0;
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    model::Gpu& gpu = machine.gpus[g];
    if (!gpu.uuid.empty()) gpu.uuid = numbered("GPU-", g + 1);
    gpu.health_reason.clear();
    for (model::Instance& instance : gpu.mig)
      if (instance.uuid.starts_with("MIG-")) instance.uuid = numbered("MIG-", ++instances);
  }
}

}  // namespace

model::Machine captured(model::Machine machine, const CaptureChoices& choices) {
  for (model::Gpu& gpu : machine.gpus) {
    if (choices.use) continue;
    make_idle(gpu.use);
    for (model::Instance& instance : gpu.mig) make_idle(instance.use);
    gpu.health = model::Health::ok;
    gpu.health_reason.clear();
    gpu.last_xid.reset();
  }
  if (choices.anonymous) make_anonymous(machine);
  return machine;
}

}  // namespace thole::app
