// The lists of visible devices, read as the runtimes read them. Internal to outer.cpp.
// Sources of the rules: docs/environment.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine.hpp"
#include "model/unit.hpp"

namespace thole::plan {

// A device as the reader of a variable counts them: a GPU or an instance, and the units it stands for.
using Device = std::vector<std::size_t>;

struct Listed {
  std::vector<Device> devices;                 // those that stay, in the variable's order
  std::string caution;                         // about the first entry that was not understood
};

class VisibleLists {
 public:
  VisibleLists(const model::Machine& machine, const std::vector<model::Unit>& units) : machine_(machine), units_(units) {}

  std::vector<Device> in_pci_order(model::Vendor vendor) const;
  // As the vendor's runtime counts: CUDA's default is "fastest first", ROCm's the kernel's order; only the machine knows.
  std::vector<Device> in_runtime_order(model::Vendor vendor) const;
  // A whole UUID or a beginning that only one device has; also "MIG-GPU-<uuid>/<gi>/<ci>".
  std::optional<Device> by_uuid(model::Vendor vendor, std::string_view token) const;

  // By the rules of CUDA: what follows the first invalid entry does not count, a device named twice leaves none, numbers and
  // UUIDs do not mix (the first entry decides). Where a MIG device is named or a GPU is partitioned, whole GPUs are not
  // seen, and a partitioned GPU named as such is its first instance. Of several MIG devices a process sees the first;
  // all of them are allotted, though, for several processes.
  Listed cuda(const model::VendorRow& row, const std::string& text, bool pci_order) const;

  // By those of ROCm: numbers relative to what the layer below left (`from`), in the lowest one also UUIDs.
  Listed rocm(const model::VendorRow& row, const std::string& text, const std::vector<Device>& from, bool uuids) const;

  // By those of Level Zero. Flat: tiles are numbered through. Composite: "card" or "card.tile". One bad entry leaves nothing.
  Listed level_zero(const model::VendorRow& row, const std::string& text, bool flat) const;

 private:
  const std::string& uuid_of(std::size_t unit) const;

  const model::Machine& machine_;
  const std::vector<model::Unit>& units_;
};

// An entry as it may be shown.
std::string shown(std::string_view entry);

}  // namespace thole::plan
