#include "host/surroundings/surroundings.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/pci/devices.hpp"
#include "host/surroundings/logout.hpp"
#include "host/sysfs/tree.hpp"

namespace thole::host {

namespace {

model::DeviceNode node(const Tree& tree, std::string path) {
  const bool usable = tree.readable_and_writable(path);
  return {std::move(path), usable};
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun …", also the open flavour "… Open Kernel Module for x86_64
// 580…".
std::string nvidia_version(std::string_view text) {
  for (std::string_view word : split(text.substr(0, text.find('\n')), ' '))
    if (!word.empty() && word.front() >= '0' && word.front() <= '9' && word.find('.') != std::string_view::npos)
      return std::string(word);
  return "";
}

model::VendorDriver nvidia_files(const Tree& tree) {
  model::VendorDriver driver{"nvidia", pci_gpus(tree, pci_vendor::nvidia).size(), std::nullopt, {}};
  if (auto text = tree.text("/proc/driver/nvidia/version")) driver.loaded = nvidia_version(*text);
  for (unsigned minor : tree.numbered("/dev", "nvidia"))
    driver.nodes.push_back(node(tree, fmt::format("/dev/nvidia{}", minor)));
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"})
    if (tree.exists(path)) driver.nodes.push_back(node(tree, path));
  return driver;
}

model::VendorDriver drm(const Tree& tree, const char* vendor, std::uint16_t id, std::initializer_list<const char*> modules) {
  model::VendorDriver driver{vendor, pci_gpus(tree, id).size(), std::nullopt, {}};
  for (const char* module : modules)
    if (tree.exists(fmt::format("/sys/module/{}", module)))
      driver.loaded = tree.text(fmt::format("/sys/module/{}/version", module)).value_or("");
  if (driver.pci_gpus == 0) return driver;
  if (id == pci_vendor::amd && tree.exists("/dev/kfd")) driver.nodes.push_back(node(tree, "/dev/kfd"));
  for (unsigned minor : tree.numbered("/dev/dri", "renderD")) {
    const auto maker = tree.hex(fmt::format("/sys/class/drm/renderD{}/device/vendor", minor));
    if (maker == id) driver.nodes.push_back(node(tree, fmt::format("/dev/dri/renderD{}", minor)));
  }
  return driver;
}

// The fifth field of a line of mountinfo is the place of the mount.
bool is_mount(const Tree& tree, const std::string& directory) {
  const std::string mounts = tree.text("/proc/self/mountinfo").value_or("");
  for (std::string_view line : split_lines(mounts)) {
    const auto fields = split(line, ' ');
    if (fields.size() > 4 && fields[4] == directory) return true;
  }
  return false;
}

bool in_container(const Tree& tree) {
  if (tree.exists("/.dockerenv") || tree.exists("/run/.containerenv") || tree.exists("/.singularity.d")) return true;
  const std::string manager = tree.text("/run/systemd/container").value_or("");
  return !manager.empty();
}

}  // namespace

model::Surroundings read_surroundings(const std::string& root, const std::string& state_dir, const std::string& user) {
  const Tree tree(root);
  model::Surroundings found;
  found.wsl = tree.exists("/dev/dxg");
  for (model::VendorDriver driver : {nvidia_files(tree), drm(tree, "amd", pci_vendor::amd, {"amdgpu"}),
                                     drm(tree, "intel", pci_vendor::intel, {"xe", "i915"})})
    if (driver.pci_gpus != 0 || driver.loaded) found.drivers.push_back(std::move(driver));
  found.nvidia_persistenced =
      tree.exists("/run/nvidia-persistenced/socket") || tree.exists("/var/run/nvidia-persistenced/socket");
  found.container = in_container(tree);
  found.state_dir_mounted = !state_dir.empty() && is_mount(tree, state_dir);
  for (const char* directory : {"/run/thole", "/run/lock/thole", "/tmp/thole"})
    if (tree.exists(directory)) found.common_directories.emplace_back(directory);
  for (const std::string& lock : safe_gpu_lock_files())
    found.safe_gpu = found.safe_gpu || tree.exists(lock);
  found.logout = read_logout(tree, user);
  return found;
}

}  // namespace thole::host
