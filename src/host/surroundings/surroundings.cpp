#include "host/surroundings/surroundings.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/gpu/vendors.hpp"
#include "host/surroundings/logout.hpp"
#include "host/sysfs/tree.hpp"

namespace thole::host {

namespace {

// The fifth field of a line of mountinfo is where the mount is.
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
  for (const GpuVendor* vendor : gpu_vendors())
    if (auto driver = vendor->driver(tree); driver.pci_gpus != 0 || driver.loaded) found.drivers.push_back(std::move(driver));
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
