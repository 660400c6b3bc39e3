#include "host/gpu/intel/backend.hpp"

#include <thread>

#include "base/text.hpp"
#include "host/drm/driver.hpp"
#include "host/gpu/intel/identity.hpp"
#include "host/gpu/intel/memory.hpp"
#include "host/gpu/intel/use.hpp"

namespace thole::host::intel {

namespace {

// Most machines with an Intel CPU have i915 for its built-in graphics; that alone is no reason to look further.
bool present(const Tree& tree) {
  for (const char* driver : {"i915", "xe"})
    for (const std::string& name : tree.names(std::string("/sys/bus/pci/drivers/") + driver))
      if (auto address = model::PciAddress::parse(name); address && !is_integrated(tree, *address)) return true;
  return false;
}

std::vector<model::Gpu> identify_gpus(const Tree& tree) {
  std::vector<model::Gpu> gpus;
  for (IntelGpu& entry : identify(tree, Detail::full)) gpus.push_back(std::move(entry.gpu));
  return gpus;
}

void observe(const Tree& tree, bool memory_wanted, const std::function<void(model::Gpu)>& emit) {
  std::vector<IntelGpu> gpus = identify(tree, Detail::brief);
  if (gpus.empty()) return;
  const DrmDescriptors descriptors = find_drm_descriptors(tree);
  each_by_itself(tree, gpus, [&](IntelGpu& entry) {
    const Sample before = take_sample(tree, entry);
    Sample after;
    if (tree.live()) {  // a captured counter never moves
      std::this_thread::sleep_until(before.at + sample_interval);
      after = take_sample(tree, entry);
    }
    read_use(tree, entry, before, after, descriptors);
    if (memory_wanted && !entry.gpu.memory_mib && entry.gpu.health == model::Health::ok)
      entry.gpu.memory_mib = asked_memory_mib(tree, entry);
    emit(std::move(entry.gpu));
  });
}

std::string generation(const Tree& tree) { return join(tree.names("/sys/class/drm"), " "); }

std::string problem(const Tree&) { return ""; }

}  // namespace

const FileVendor vendor{
    .vendor = model::Vendor::intel,
    .source = "sysfs, fdinfo",
    .present = present,
    .identify = identify_gpus,
    .observe = observe,
    .generation = generation,
    .problem = problem,
};

const GpuVendor functions{
    .vendor = model::Vendor::intel,
    .backend = [](const DriverOptions& options) -> std::unique_ptr<port::GpuBackend> {
      return std::make_unique<IntelBackend>(FileOptions{options.root, options.program, options.runtime_dir});
    },
    .serve_probe = [](ProbeChannel channel) { return host::serve_probe(vendor, std::move(channel)); },
    .driver = [](const Tree& tree) { return drm_driver(tree, model::Vendor::intel, {"xe", "i915"}); },
};

}  // namespace thole::host::intel
