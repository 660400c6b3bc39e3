#include "host/gpu/intel/identity.hpp"

#include <algorithm>

#include "host/drm/device.hpp"
#include "host/pci/devices.hpp"

namespace thole::host::intel {

namespace {

constexpr model::PciAddress built_in_address{0, 0, 2, 0};

// "" when no driver has it.
std::string driver_name(const Tree& tree, const std::string& device) {
  auto path = tree.real(device + "/driver");
  return path ? path->substr(path->rfind('/') + 1) : "";
}

Driver driver_of(const std::string& name) { return name == "xe" ? Driver::xe : name == "i915" ? Driver::i915 : Driver::none; }

// xe shows its tiles; i915 shows graphics units ("gt"), which are tiles on a Max and a media engine on other chips.
unsigned count_tiles(const Tree& tree, const std::string& device, Driver driver, std::uint16_t id) {
  std::size_t tiles = 1;
  if (driver == Driver::xe) {
    tiles = tree.numbered(device, "tile").size();
  } else if (bool is_max = id == 0x0b69 || (id >= 0x0bd0 && id <= 0x0bdb); driver == Driver::i915 && is_max) {
    if (auto card = drm_nodes(tree, device).card)
      tiles = tree.numbered(device + "/drm/card" + std::to_string(*card) + "/gt", "gt").size();
  }
  return static_cast<unsigned>(std::clamp<std::size_t>(tiles, 1, 8));
}

// Only Intel's out-of-tree i915 tells the memory of a card in a file; it is that of all tiles.
std::optional<std::uint64_t> total_memory_mib(const Tree& tree, const std::string& device, unsigned tiles) {
  auto card = drm_nodes(tree, device).card;
  auto bytes = card ? tree.number(device + "/drm/card" + std::to_string(*card) + "/lmem_total_bytes") : std::nullopt;
  return bytes && *bytes > 0 ? std::optional((*bytes >> 20) / tiles) : std::nullopt;
}

void check_usable(const Tree& tree, IntelGpu& entry) {
  std::string problem;
  if (entry.driver == Driver::none) problem = "no driver has taken it: load i915 or xe";
  else if (entry.gpu.minor) problem = access_problem(tree, "/dev/dri/renderD" + std::to_string(*entry.gpu.minor));
  if (problem.empty()) return;
  entry.gpu.health = model::Health::unreadable;
  entry.gpu.health_reason = problem;
}

std::vector<IntelGpu> tiles_of(const Tree& tree, const PciDevice& device, const std::string& directory, Driver driver) {
  IntelGpu entry;
  entry.device = directory;
  entry.driver = driver;
  entry.tiles = count_tiles(tree, directory, driver, device.device.value_or(0));
  model::Gpu& gpu = entry.gpu;
  gpu.vendor = model::Vendor::intel;
  gpu.pci = device.address;
  gpu.memory_mib = total_memory_mib(tree, directory, entry.tiles);
  if (auto minor = drm_nodes(tree, directory).render) gpu.minor = static_cast<int>(*minor);
  check_usable(tree, entry);
  std::vector<IntelGpu> all;
  for (entry.tile = 0; entry.tile < entry.tiles; ++entry.tile) {
    if (entry.tiles > 1) gpu.part = static_cast<int>(entry.tile);
    all.push_back(entry);
  }
  return all;
}

void describe(const Tree& tree, std::vector<IntelGpu>& gpus) {
  for (IntelGpu& entry : gpus) {
    auto id = pci_device(tree, *entry.gpu.pci);
    entry.gpu.model = product_name(id ? id->device.value_or(0) : 0);
    entry.gpu.display = drives_display(tree, entry.device);
  }
}

}  // namespace

bool is_integrated(const Tree& tree, const model::PciAddress& address) {
  if (address != built_in_address) return false;
  auto id = tree.hex("/sys/bus/pci/devices/" + address.to_string() + "/device");
  return !id || *id > UINT16_MAX || !is_discrete(static_cast<std::uint16_t>(*id));
}

std::vector<IntelGpu> identify(const Tree& tree, Detail detail) {
  std::vector<IntelGpu> gpus;
  int level_zero_index = 0;
  for (const PciDevice& device : pci_gpus(tree, model::Vendor::intel)) {
    const std::string directory = "/sys/bus/pci/devices/" + device.address.to_string(), name = driver_name(tree, directory);
    const Driver driver = driver_of(name);
    if (device.virtual_function || (driver == Driver::none && !name.empty())) continue;
    const bool left_out = is_integrated(tree, device.address);
    for (IntelGpu& entry : tiles_of(tree, device, directory, driver)) {
      // Level Zero opens the render node of each; what it cannot open it does not count.
      if (entry.gpu.health != model::Health::unreadable) entry.gpu.cuda_index = level_zero_index++;
      if (left_out) continue;
      if (entry.gpu.cuda_index == static_cast<int>(gpus.size())) entry.gpu.cuda_index.reset();
      gpus.push_back(std::move(entry));
    }
  }
  if (detail == Detail::full) describe(tree, gpus);
  return gpus;
}

}  // namespace thole::host::intel
