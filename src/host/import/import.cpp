#include "host/import/import.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/import/from_matrix.hpp"
#include "host/import/from_nvidia_smi.hpp"
#include "model/json.hpp"

namespace thole::host {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_import = 256u << 20;

// "/home/anna/node7.topology.xml" -> "node7.topology"
std::string name_of(const std::string& path) {
  fs::path file = fs::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  return file.has_stem() && !fs::is_directory(path) ? file.stem().string() : file.filename().string();
}

bool is_packed(std::string_view text) {
  using namespace std::string_view_literals;
  return text.starts_with("\x1f\x8b"sv) || text.starts_with("BZh"sv) || text.starts_with("\xfd" "7zXZ"sv) ||
         text.starts_with("\x28\xb5\x2f\xfd"sv) || (text.size() > 262 && text.substr(257, 5) == "ustar");
}

[[noreturn]] void refuse(const std::string& path, const std::string& text) {
  Error error = Error(ErrorCode::usage, text.empty() ? "the file is empty" : "no kind of topology that thole reads")
                    .about(printable(path, 200));
  if (is_packed(text)) throw std::move(error).hint("unpack it first and give the folder: tar xf FILE -C DIR");
  throw std::move(error).hint(
      "hwloc XML (lstopo FILE.xml), nvidia-smi topo -m, nvidia-smi -q -x, or a folder with the /sys and /proc "
      "of a machine (hwloc-gather-topology)");
}

// A file, or what comes out of a pipe, for which its writer is waited for; "-" is stdin.
std::string text_of(const std::string& path, bool& again) {
  const Fd file = path == "-" ? Fd() : open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOCTTY);
  const int fd = path == "-" ? STDIN_FILENO : file.get();
  auto text = fd < 0 ? std::nullopt : await_all(fd, largest_import);
  if (!text) throw Error(ErrorCode::usage, "cannot read the topology file").about(printable(path, 200)).because(errno);
  struct stat status {};
  again = path != "-" && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return std::move(*text);
}

// hwloc reads it in a process of its own, which cannot read again what came out of a pipe.
model::Machine read_xml(const std::string& text, const std::string& path, const TopologyReader& reader) {
  const Fd copy(above_standard(::memfd_create("topology.xml", MFD_CLOEXEC)));
  if (!copy || !write_all(copy.get(), text))
    throw Error(ErrorCode::unavailable, "no memory for a copy of it").about(printable(path, 200)).because(errno);
  try {
    return reader.read_xml(fmt::format("/proc/{}/fd/{}", ::getpid(), copy.get()));
  } catch (Error& error) {
    throw std::move(error).about(printable(path, 200));
  }
}

bool start_has(std::string_view text, std::string_view word) { return text.substr(0, 4096).find(word) != text.npos; }

bool has_kernel_files(const fs::path& root) {
  return fs::is_directory(root / "sys/devices") || fs::is_directory(root / "sys/class") ||
         fs::is_directory(root / "proc/driver/nvidia");
}

// A display controller that also computes, going by its class and the driver's nodes. Consoles and graphics inside CPUs are VGA
// controllers without a render node, or without any driver.
bool computes(const Tree& tree, const PciDevice& device) {
  constexpr std::uint32_t vga = 0x0300;
  if (!device.class_code || !is_gpu_class(*device.class_code)) return false;
  if (vendor_of(device) == model::Vendor::nvidia || (*device.class_code >> 8) != vga) return true;
  return !tree.numbered("/sys/bus/pci/devices/" + device.address.to_string() + "/drm", "renderD").empty();
}

}  // namespace

model::Machine import_file(const std::string& path, const TopologyReader& reader, std::vector<std::string>* doubts) {
  bool again = false;
  const std::string text = text_of(path, again);
  const bool hwloc = start_has(text, "<topology") || start_has(text, "<root>");
  model::Machine machine = !hwloc  ? import_text(text, path, doubts)
                           : again ? reader.read_xml(path)
                                   : read_xml(text, path, reader);
  machine.name = path == "-" ? "stdin" : name_of(path);
  return machine;
}

model::Machine import_text(const std::string& text, const std::string& what, std::vector<std::string>* doubts) {
  model::Machine machine;
  if (start_has(text, "<nvidia_smi_log")) machine = machine_of_nvidia_smi(text, what);
  else if (has_matrix(text)) machine = machine_of_matrix(text, what, doubts);
  else refuse(what, text);
  // Whatever the text said, what is written of it can be read: every GPU has an identity, and one of its own.
  return model::machine_from_json(model::to_json(machine), printable(what, 200));
}

std::string root_in(const std::string& directory) {
  if (has_kernel_files(directory)) return directory;
  std::error_code unreadable;
  std::vector<std::string> found;
  for (fs::directory_iterator entry(directory, unreadable), end; !unreadable && entry != end; entry.increment(unreadable))
    if (has_kernel_files(entry->path())) found.push_back(entry->path().string());
  if (found.size() == 1) return found.front();
  throw Error(ErrorCode::usage, found.empty() ? "no /sys of a machine in this folder" : "more than one machine in this folder")
      .about(printable(directory, 200))
      .hint(found.empty() ? "give the folder that has sys and proc in it" : "give one of " + join(found, ", "));
}

model::Machine import_tree(const std::string& root, std::vector<model::Gpu> gpus, const TopologyReader& reader) {
  constexpr Millis patience{60'000};
  Topology topology = reader.read_machine(root, patience);
  if (!topology.problem.empty()) throw Error(ErrorCode::unavailable, topology.problem).about(printable(root, 200));
  const Tree tree(root);
  add_devices(tree, gpus, topology);
  for (const auto& [address, device] : topology.devices) {
    const bool listed =
        std::any_of(gpus.begin(), gpus.end(), [&, at = address](const model::Gpu& gpu) { return gpu.pci == at; });
    const auto vendor = vendor_of(device);
    if (listed || !vendor || device.virtual_function || !computes(tree, device)) continue;
    model::Gpu& gpu = gpus.emplace_back();
    gpu.vendor = *vendor;
    gpu.pci = address;
  }
  std::stable_sort(gpus.begin(), gpus.end(), [](const model::Gpu& a, const model::Gpu& b) {
    return std::tuple(!a.pci, a.pci.value_or(model::PciAddress{}), a.part.value_or(0)) <
           std::tuple(!b.pci, b.pci.value_or(model::PciAddress{}), b.part.value_or(0));
  });
  model::Machine machine = around(topology, std::move(gpus));
  machine.name = name_of(root);
  return machine;
}

}  // namespace thole::host
