#include "host/gpu/nvidia/files.hpp"

#include <algorithm>
#include <climits>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/pci/devices.hpp"

namespace thole::host::nvidia {
namespace {

constexpr std::string_view driver_dir = "/proc/driver/nvidia";
// The inode of the first pid namespace, the one whose ids the driver reports (PROC_PID_INIT_INO in Linux' proc_ns.h).
constexpr std::string_view initial_pid_namespace = "pid:[4026531836]";

std::string last_component(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// The kernel module writes "Unknown" and question marks for what it does not know (yet); the library may know.
std::string known(std::optional<std::string_view> value) {
  return value && *value != "Unknown" && value->find('?') == std::string_view::npos ? std::string(*value) : "";
}

void read_memory_node(const Tree& tree, const std::string& directory, FileGpu& gpu) {
  auto text = tree.text(directory + "/numa_status");
  gpu.coherent = text && field(*text, "Status").value_or("") == "online";
  if (!gpu.coherent) return;
  const auto node = parse_u64(field(*text, "Node").value_or(""));
  if (node && *node <= INT_MAX) gpu.memory_numa = static_cast<int>(*node);
}

// capabilities/gpu<minor>/mig/gi<G>/ci<C>/ exists for every instance that there is.
std::vector<std::array<int, 2>> mig_instances(const Tree& tree, int minor) {
  std::vector<std::array<int, 2>> found;
  std::string mig = std::string(driver_dir) + "/capabilities/gpu" + std::to_string(minor) + "/mig";
  for (unsigned gi : tree.numbered(mig, "gi"))
    for (unsigned ci : tree.numbered(mig + "/gi" + std::to_string(gi), "ci"))
      found.push_back({static_cast<int>(gi), static_cast<int>(ci)});
  return found;
}

std::string bound_driver(const Tree& tree, const model::PciAddress& pci) {
  return last_component(read_link(tree.at("/sys/bus/pci/devices/" + pci.to_string() + "/driver")));
}

FileGpu read_gpu(const Tree& tree, const model::PciAddress& pci, const std::string& name) {
  FileGpu gpu;
  gpu.pci = pci;
  std::string directory = std::string(driver_dir) + "/gpus/" + name;
  if (auto text = tree.text(directory + "/information")) gpu.information = parse_information(*text);
  gpu.bound_to = bound_driver(tree, pci);
  read_memory_node(tree, directory, gpu);
  if (gpu.information.minor) gpu.instances = mig_instances(tree, *gpu.information.minor);
  return gpu;
}

}  // namespace

Information parse_information(std::string_view text) {
  Information information;
  information.uuid = known(field(text, "GPU UUID"));
  information.model = known(field(text, "Model"));
  if (auto minor = field(text, "Device Minor"))
    if (auto number = parse_u64(*minor); number && *number < 1u << 20) information.minor = static_cast<int>(*number);
  information.excluded = field(text, "GPU Excluded").value_or("No") == "Yes";
  return information;
}

std::string parse_driver_version(std::string_view text) {
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with("NVRM version:")) continue;
    for (std::string_view word : split(line, ' ')) {
      bool digits_and_dots = word.find_first_not_of("0123456789.") == std::string_view::npos;
      if (digits_and_dots && word.find('.') != std::string_view::npos) return std::string(word);
    }
  }
  return "";
}

DriverFiles read_files(const Tree& tree) {
  DriverFiles files;
  std::string version_file = std::string(driver_dir) + "/version";
  files.loaded = tree.exists(version_file);
  files.version = parse_driver_version(tree.text(version_file).value_or(""));
  for (const std::string& name : tree.names(std::string(driver_dir) + "/gpus"))
    if (auto pci = model::PciAddress::parse(name))
      if (FileGpu gpu = read_gpu(tree, *pci, name); !gpu.information.excluded) files.gpus.push_back(std::move(gpu));
  if (!files.loaded && files.gpus.empty()) {
    for (const PciDevice& device : pci_gpus(tree, model::Vendor::nvidia)) {
      FileGpu gpu;
      gpu.pci = device.address;
      gpu.bound_to = bound_driver(tree, device.address);
      files.gpus.push_back(std::move(gpu));
    }
  }
  std::sort(files.gpus.begin(), files.gpus.end(), [](const FileGpu& a, const FileGpu& b) { return a.pci < b.pci; });
  return files;
}

bool any_nvidia(const Tree& tree) {
  if (tree.exists(std::string(driver_dir) + "/version") || !tree.names(std::string(driver_dir) + "/gpus").empty()) return true;
  if (tree.exists("/usr/lib/wsl/lib/libnvidia-ml.so.1") && tree.exists("/dev/dxg")) return true;
  // A sandbox may hide all of these and still lend the GPU.
  return tree.exists("/dev/nvidiactl") || !pci_gpus(tree, model::Vendor::nvidia).empty();
}

bool pids_are_foreign(const Tree& tree) {
  std::string mine = read_link(tree.at("/proc/self/ns/pid"));
  return !mine.empty() && mine != initial_pid_namespace;
}

}  // namespace thole::host::nvidia
