// The GPU vendors, one row each: what is to be known of one without looking at a machine. What looks is in the folder of its
// name in host/gpu. Everything else asks this table; how one more is added: docs/contributing-examples.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace thole::model {

enum class Vendor { nvidia, amd, intel };

struct Setting {
  std::string_view name, value;               // of an environment variable
  bool operator==(const Setting&) const = default;
};

// By whose rules a list of visible devices is written and read (plan/environment, docs/environment.md).
enum class ListRules {
  cuda,        // numbers or UUIDs, up to the first name that is none
  rocm,        // the same, other repetitions; further lists may number what this one leaves
  level_zero,  // numbers, of cards and tiles; one that is none leaves nothing
};

// What mends a driver that does not work, for `doctor`. The defaults: of drivers with DRM nodes (/dev/dri).
struct DriverMends {
  const char* load;
  const char* make_nodes = "sudo udevadm trigger";
  const char* open_nodes = "sudo usermod -aG render,video $USER, then log in again";
  const char* keep_awake = "";
};

struct VendorRow {
  Vendor vendor;
  const char* name;                           // in JSON, of its backend and probe
  const char* called;                         // in sentences
  std::uint16_t pci_id;

  const char* runtime;                        // who reads the lists
  ListRules rules;
  std::array<std::string_view, 3> lists{};    // what holds them, from below: each numbers what the one before leaves
  std::optional<Vendor> also_reads{};         // whose list it takes for its uppermost, without GPUs of that vendor here
  Setting pci_order{};                        // set for every job: numbers are in PCI order, else in the runtime's own
  std::array<Setting, 2> beside{};            // set where there is a list: what the numbers in it rest on
  const char* container = "";                 // what its container runtime reads when a container is made

  const char* instances = "";                 // what its partitions are called, behind the model's name
  bool one_instance_a_process = false;
  bool placeholder = false;                   // a context of thole's own can stand on its GPUs (port/placeholder.hpp)
  DriverMends mends;
};

// In this order the GPUs of a mixed machine are numbered.
inline constexpr VendorRow vendors[] = {
    {.vendor = Vendor::nvidia,
     .name = "nvidia",
     .called = "NVIDIA",
     .pci_id = 0x10de,
     .runtime = "CUDA",
     .rules = ListRules::cuda,
     .lists = {"CUDA_VISIBLE_DEVICES"},
     .pci_order = {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
     .container = "NVIDIA_VISIBLE_DEVICES",
     .instances = "MIG",
     .one_instance_a_process = true,
     .placeholder = true,
     .mends = {.load = "sudo modprobe nvidia; if that fails, install or rebuild the driver for this kernel",
               .make_nodes = "sudo nvidia-modprobe -u -c 0",
               .open_nodes = "ask for membership in the group that owns them (ls -l /dev/nvidia*)",
               .keep_awake = "sudo systemctl enable --now nvidia-persistenced"}},
    {.vendor = Vendor::amd,
     .name = "amd",
     .called = "AMD",
     .pci_id = 0x1002,
     .runtime = "ROCm",
     .rules = ListRules::rocm,
     .lists = {"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES"},
     .also_reads = Vendor::nvidia,
     .mends = {.load = "sudo modprobe amdgpu"}},
    {.vendor = Vendor::intel,
     .name = "intel",
     .called = "Intel",
     .pci_id = 0x8086,
     .runtime = "Level Zero",
     .rules = ListRules::level_zero,
     .lists = {"ZE_AFFINITY_MASK"},
     .beside = {{{"ZE_FLAT_DEVICE_HIERARCHY", "FLAT"}, {"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"}}},
     .mends = {.load = "sudo modprobe xe"}},
};

constexpr const VendorRow& row_of(Vendor vendor) { return vendors[static_cast<std::size_t>(vendor)]; }

static_assert([] {
  for (std::size_t i = 0; i < std::size(vendors); ++i)
    if (static_cast<std::size_t>(vendors[i].vendor) != i) return false;
  return true;
}(), "the rows stand in the order of the enumeration");

// What of a row's array is filled.
template <class T, std::size_t most>
constexpr std::span<const T> filled(const std::array<T, most>& entries) {
  std::size_t count = 0;
  while (count < most && !(entries[count] == T{})) ++count;
  return std::span(entries).first(count);
}

const char* to_string(Vendor vendor);
std::optional<Vendor> parse_vendor(std::string_view text);
const char* vendor_names();                   // "nvidia, amd, intel"

// Whether this variable holds a vendor's list: thole sets it anew for who has GPUs.
bool is_mask(std::string_view variable);

}  // namespace thole::model
