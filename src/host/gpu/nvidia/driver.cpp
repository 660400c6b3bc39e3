// What NVIDIA's files tell of its driver, and the functions of this folder.
#include "base/text.hpp"
#include "host/gpu/nvidia/backend.hpp"
#include "host/gpu/nvidia/probe.hpp"
#include "host/pci/devices.hpp"

namespace thole::host::nvidia {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun …", also the open flavour "… Open Kernel Module for x86_64
// 580…".
std::string version_in(std::string_view text) {
  for (std::string_view word : split(text.substr(0, text.find('\n')), ' '))
    if (!word.empty() && word.front() >= '0' && word.front() <= '9' && word.find('.') != std::string_view::npos)
      return std::string(word);
  return "";
}

model::VendorDriver driver_of(const Tree& tree) {
  model::VendorDriver driver{.vendor = model::Vendor::nvidia, .pci_gpus = pci_gpus(tree, model::Vendor::nvidia).size()};
  if (auto text = tree.text("/proc/driver/nvidia/version")) driver.loaded = version_in(*text);
  for (unsigned minor : tree.numbered("/dev", "nvidia"))
    driver.nodes.push_back(device_node(tree, fmt::format("/dev/nvidia{}", minor)));
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"})
    if (tree.exists(path)) driver.nodes.push_back(device_node(tree, path));
  driver.kept_awake = tree.exists("/run/nvidia-persistenced/socket") || tree.exists("/var/run/nvidia-persistenced/socket");
  return driver;
}

std::unique_ptr<port::GpuBackend> make_backend(const DriverOptions& options) {
  return std::make_unique<NvidiaBackend>(
      NvidiaOptions{options.root, options.nvml_path, options.program, options.runtime_dir, options.probe_outlives});
}

}  // namespace

const GpuVendor functions{
    .vendor = model::Vendor::nvidia, .backend = make_backend, .serve_probe = serve_probe, .driver = driver_of};

}  // namespace thole::host::nvidia
