#include "plan/environment/visible_lists.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::plan {

using model::Gpu;
using model::Vendor;
using model::VendorRow;

std::string shown(std::string_view entry) { return entry.empty() ? "an empty entry" : "\"" + printable(entry, 60) + "\""; }

std::vector<Device> VisibleLists::in_pci_order(Vendor vendor) const {
  std::vector<Device> devices;
  for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
    if (machine_.gpus[g].vendor != vendor) continue;
    Device& device = devices.emplace_back();
    for (std::size_t i = 0; i < units_.size(); ++i)
      if (units_[i].gpu == g) device.push_back(i);
  }
  return devices;
}

std::vector<Device> VisibleLists::in_runtime_order(Vendor vendor) const {
  std::vector<Device> by_pci = in_pci_order(vendor);
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
    if (machine_.gpus[g].vendor != vendor) continue;
    const std::size_t position = order.size();
    order.emplace_back(machine_.gpus[g].cuda_index.value_or(static_cast<int>(position)), position);
  }
  std::sort(order.begin(), order.end());
  std::vector<Device> devices;
  for (const auto& [index, position] : order) devices.push_back(std::move(by_pci[position]));
  return devices;
}

const std::string& VisibleLists::uuid_of(std::size_t unit) const {
  const Gpu& gpu = units_[unit].gpu_of(machine_);
  return units_[unit].instance ? gpu.mig[*units_[unit].instance].uuid : gpu.uuid;
}

std::optional<Device> VisibleLists::by_uuid(Vendor vendor, std::string_view token) const {
  std::vector<Device> found;
  const auto consider = [&](const std::string& name, Device device) {
    if (!name.empty() && starts_with_ignoring_case(name, token)) found.push_back(std::move(device));
  };
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Gpu& gpu = units_[i].gpu_of(machine_);
    if (gpu.vendor != vendor || !units_[i].instance) continue;
    const auto& ids = gpu.mig[*units_[i].instance].instance;
    if (to_lower(uuid_of(i)) == to_lower(token)) return Device{i};
    consider(uuid_of(i), {i});
    consider(fmt::format("MIG-{}/{}/{}", gpu.uuid, ids[0], ids[1]), {i});
  }
  const std::vector<Device> whole = in_pci_order(vendor);
  std::size_t position = 0;
  for (const Gpu& gpu : machine_.gpus) {
    if (gpu.vendor != vendor) continue;
    if (to_lower(gpu.uuid) == to_lower(token)) return whole[position];
    consider(gpu.uuid, whole[position++]);
  }
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

Listed VisibleLists::cuda(const VendorRow& row, const std::string& text, bool pci_order) const {
  const std::vector<Device> numbered = pci_order ? in_pci_order(row.vendor) : in_runtime_order(row.vendor);
  Listed listed;
  if (text.empty()) return listed;
  std::optional<bool> numbers;
  for (std::string_view token : split(text, ',')) {
    while (!token.empty() && (token.front() == ' ' || token.front() == '\t')) token.remove_prefix(1);
    const auto digits = token.substr(0, std::min(token.find_first_not_of("0123456789"), token.size()));
    const bool number = !digits.empty();
    std::optional<Device> device;
    const bool uuid = starts_with_ignoring_case(token, "GPU-") || starts_with_ignoring_case(token, "MIG-");
    if (numbers.value_or(number) != number) {
      if (number || uuid) listed.caution = "mixes numbers and UUIDs";
    } else if (number) {
      const auto index = parse_u64(digits);    // as atoi reads it: what follows the digits is not looked at
      if (index && *index < numbered.size()) device = numbered[*index];
    } else if (uuid) {
      device = by_uuid(row.vendor, trim(token));
    }
    numbers = number;
    if (!device) {
      if (listed.caution.empty()) listed.caution = "names " + shown(token) + ", which is no GPU of this machine";
      listed.caution += fmt::format("; {} ignores it and what follows it", row.runtime);
      break;
    }
    if (device->size() > 1 || (device->size() == 1 && units_[device->front()].instance)) device->resize(1);
    if (!device->empty() && std::find(listed.devices.begin(), listed.devices.end(), *device) != listed.devices.end()) {
      listed.caution = fmt::format("names {} twice; {} then shows no GPU at all", shown(token), row.runtime);
      listed.devices.clear();
      break;
    }
    listed.devices.push_back(*std::move(device));
  }
  const auto partitioned = [&](const Device& device) { return !device.empty() && units_[device.front()].instance; };
  if (std::any_of(listed.devices.begin(), listed.devices.end(), partitioned))
    std::erase_if(listed.devices, [&](const Device& device) { return !partitioned(device); });
  return listed;
}

Listed VisibleLists::rocm(const VendorRow& row, const std::string& text, const std::vector<Device>& from, bool uuids) const {
  Listed listed;
  if (text.empty()) return listed;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view token = trim(raw);
    std::optional<Device> device;
    if (const auto index = parse_u64(token)) {
      if (*index < from.size()) device = from[*index];
    } else if (uuids && starts_with_ignoring_case(token, "GPU-")) {
      device = by_uuid(row.vendor, token);
    }
    if (!device) {
      listed.caution = "names " + shown(token) + ", which is no GPU it can choose from";
      break;
    }
    if (std::find(listed.devices.begin(), listed.devices.end(), *device) == listed.devices.end())
      listed.devices.push_back(*std::move(device));
  }
  return listed;
}

Listed VisibleLists::level_zero(const VendorRow& row, const std::string& text, bool flat) const {
  std::vector<Device> cards;                   // GPUs at one PCI address are tiles of one card
  std::vector<Device> tiles;
  std::optional<model::PciAddress> last;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Gpu& gpu = units_[i].gpu_of(machine_);
    if (gpu.vendor != row.vendor) continue;
    const bool same_card = i > 0 && !cards.empty() && (units_[i - 1].gpu == units_[i].gpu || (gpu.pci && gpu.pci == last));
    last = gpu.pci;
    if (!same_card) cards.emplace_back();
    cards.back().push_back(i);
    tiles.push_back({i});
  }
  Listed listed;
  for (const std::string_view raw : split(text, ',')) {
    std::string_view card_text = trim(raw), tile_text;
    const std::size_t dot = card_text.find('.');
    if (dot != card_text.npos) {
      tile_text = card_text.substr(dot + 1);
      card_text = card_text.substr(0, dot);
    }
    const auto card = parse_u64(card_text);
    const std::vector<Device>& numbered = flat ? tiles : cards;
    std::optional<Device> device;
    if (card && *card < numbered.size() && !(flat && dot != raw.npos)) device = numbered[*card];
    if (device && dot != raw.npos) {
      const std::uint64_t tile = parse_u64(tile_text).value_or(device->size());
      device = tile < device->size() ? std::optional(Device{(*device)[tile]}) : std::nullopt;
    }
    if (!device) {
      const char* what = flat ? "device" : "card or tile";
      listed.caution = fmt::format("names {}, which is no {} here; the driver then shows none", shown(raw), what);
      listed.devices.clear();
      break;
    }
    listed.devices.push_back(*std::move(device));
  }
  return listed;
}

}  // namespace thole::plan
