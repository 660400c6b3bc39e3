#include "host/gpu/amd/backend.hpp"

#include "host/drm/driver.hpp"
#include "host/gpu/amd/identity.hpp"
#include "host/gpu/amd/use.hpp"

namespace thole::host::amd {

namespace {

bool present(const Tree& tree) { return tree.exists(kfd_nodes) || tree.exists("/sys/module/amdgpu"); }

std::vector<model::Gpu> identify_gpus(const Tree& tree) {
  std::vector<model::Gpu> gpus;
  for (AmdGpu& entry : identify(tree, Detail::full)) gpus.push_back(std::move(entry.gpu));
  return gpus;
}

void observe(const Tree& tree, bool, const std::function<void(model::Gpu)>& emit) {
  std::vector<AmdGpu> gpus = identify(tree, Detail::brief);
  if (gpus.empty()) return;
  const auto computing = read_kfd_processes(tree);
  const DrmDescriptors descriptors = find_drm_descriptors(tree);
  each_by_itself(tree, gpus, [&](AmdGpu& entry) {
    read_use(tree, entry, computing, descriptors);
    emit(std::move(entry.gpu));
  });
}

std::string generation(const Tree& tree) { return tree.text("/sys/class/kfd/kfd/topology/generation_id").value_or(""); }

std::string problem(const Tree& tree) {
  if (tree.exists(kfd_nodes)) return "";
  return "the amdgpu driver is loaded without its compute part (no /sys/class/kfd), so its GPUs cannot be claimed: "
         "load a kernel with CONFIG_HSA_AMD";
}

}  // namespace

const FileVendor vendor{
    .vendor = model::Vendor::amd,
    .source = "kfd, sysfs",
    .present = present,
    .identify = identify_gpus,
    .observe = observe,
    .generation = generation,
    .problem = problem,
};

const GpuVendor functions{
    .vendor = model::Vendor::amd,
    .backend = [](const DriverOptions& options) -> std::unique_ptr<port::GpuBackend> {
      return std::make_unique<AmdBackend>(FileOptions{options.root, options.program, options.runtime_dir});
    },
    .serve_probe = [](ProbeChannel channel) { return host::serve_probe(vendor, std::move(channel)); },
    .driver = [](const Tree& tree) { return drm_driver(tree, model::Vendor::amd, {"amdgpu"}, "/dev/kfd"); },
};

}  // namespace thole::host::amd
