// The outer allotment: what the environment and the machine leave us of its GPUs.
//
// How this works. Every variable is turned into a list of units in the order in which it names them, by the rules of
// whoever reads it (research of CUDA, ROCr, Level Zero and the engines: docs/environment.md), and then into a mask. Masks are
// only ever combined by "and". An engine's own list (SLURM_JOB_GPUS, SGE_HGR_gpu, PBS_GPUFILE) counts on top of the vendor's
// variable, because a user may have unset that one; but it numbers the node's GPUs, so when a device cgroup already hides
// the others (as many GPUs are shown as it names) it says nothing more.
#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "plan/select.hpp"

namespace thole::plan {

using model::Gpu;
using model::Unit;
using model::Vendor;

namespace {

// A device as the reader of a variable counts them: a GPU or an instance, and the units it stands for.
using Device = std::vector<std::size_t>;

struct Listed {
  std::vector<Device> devices;                 // those that stay, in the variable's order
  std::string caution;                         // about the first entry that was not understood
};

const std::string* find(const Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() ? nullptr : &it->second;
}

std::string shown(std::string_view token) { return token.empty() ? "an empty entry" : "\"" + printable(token, 60) + "\""; }

class Allotment {
 public:
  Allotment(const model::Snapshot& snapshot, const std::vector<Unit>& units)
      : machine_(snapshot.machine), units_(units) { outer_.visible.assign(units.size(), true); }

  void read(const Environment& environment);
  Outer take() && { return std::move(outer_); }

 private:
  bool has(Vendor vendor) const {
    return std::any_of(machine_.gpus.begin(), machine_.gpus.end(), [&](const Gpu& gpu) { return gpu.vendor == vendor; });
  }
  std::vector<Device> whole_gpus(Vendor vendor) const;
  std::vector<Device> in_runtime_order(Vendor vendor) const;
  std::optional<Device> by_uuid(Vendor vendor, std::string_view token) const;
  const std::string& uuid_of(std::size_t unit) const;

  Listed cuda_list(const std::string& text, bool pci_order) const;
  Listed rocm_list(const std::string& text, const std::vector<Device>& from, bool uuids) const;
  Listed level_zero_list(const std::string& text, bool flat) const;

  void nvidia(const std::string& name, const std::string& text, bool pci_order);
  void amd(const Environment& environment);
  void intel(const std::string& name, const std::string& text, const Environment& environment);
  void engines(const Environment& environment);
  void engine(const std::string& name, const std::vector<std::string>& ids);
  void narrow(const std::string& name, Vendor vendor, const Listed& listed);
  void narrow(const std::string& name, const std::function<bool(const Unit&)>& concerned, const std::vector<Device>& kept);

  const model::Machine& machine_;
  const std::vector<Unit>& units_;
  Outer outer_;
};

std::vector<Device> Allotment::whole_gpus(Vendor vendor) const {
  std::vector<Device> devices;
  for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
    if (machine_.gpus[g].vendor != vendor) continue;
    Device& device = devices.emplace_back();
    for (std::size_t i = 0; i < units_.size(); ++i)
      if (units_[i].gpu == g) device.push_back(i);
  }
  return devices;
}

// As the vendor's runtime counts: CUDA's default is "fastest first", ROCm's the kernel's order; only the machine itself knows.
std::vector<Device> Allotment::in_runtime_order(Vendor vendor) const {
  std::vector<Device> by_pci = whole_gpus(vendor);
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

const std::string& Allotment::uuid_of(std::size_t unit) const {
  const Gpu& gpu = units_[unit].gpu_of(machine_);
  return units_[unit].instance ? gpu.mig[*units_[unit].instance].uuid : gpu.uuid;
}

// A whole UUID or a beginning that only one device has; also "MIG-GPU-<uuid>/<gi>/<ci>".
std::optional<Device> Allotment::by_uuid(Vendor vendor, std::string_view token) const {
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
  const std::vector<Device> whole = whole_gpus(vendor);
  std::size_t position = 0;
  for (const Gpu& gpu : machine_.gpus) {
    if (gpu.vendor != vendor) continue;
    if (to_lower(gpu.uuid) == to_lower(token)) return whole[position];
    consider(gpu.uuid, whole[position++]);
  }
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

// CUDA_VISIBLE_DEVICES: what follows the first invalid entry does not count, a device named twice leaves none, numbers and
// UUIDs do not mix (the first entry decides). Where a MIG device is named or a GPU is partitioned, whole GPUs are not seen,
// and a partitioned GPU named as such is its first instance. Of several MIG devices a process sees the first; all of
// them are allotted, though, for several processes.
Listed Allotment::cuda_list(const std::string& text, bool pci_order) const {
  const std::vector<Device> numbered = pci_order ? whole_gpus(Vendor::nvidia) : in_runtime_order(Vendor::nvidia);
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
      device = by_uuid(Vendor::nvidia, trim(token));
    }
    numbers = number;
    if (!device) {
      if (listed.caution.empty()) listed.caution = "names " + shown(token) + ", which is no GPU of this machine";
      listed.caution += "; CUDA ignores it and what follows it";
      break;
    }
    if (device->size() > 1 || (device->size() == 1 && units_[device->front()].instance)) device->resize(1);
    if (!device->empty() && std::find(listed.devices.begin(), listed.devices.end(), *device) != listed.devices.end()) {
      listed.caution = "names " + shown(token) + " twice; CUDA then shows no GPU at all";
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

// ROCR_, HIP_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL: numbers relative to what the layer below left, ROCr also UUIDs.
Listed Allotment::rocm_list(const std::string& text, const std::vector<Device>& from, bool uuids) const {
  Listed listed;
  if (text.empty()) return listed;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view token = trim(raw);
    std::optional<Device> device;
    if (const auto index = parse_u64(token)) {
      if (*index < from.size()) device = from[*index];
    } else if (uuids && starts_with_ignoring_case(token, "GPU-")) {
      device = by_uuid(Vendor::amd, token);
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

// ZE_AFFINITY_MASK. Flat: tiles are numbered through. Composite: "card" or "card.tile". One bad entry leaves nothing.
Listed Allotment::level_zero_list(const std::string& text, bool flat) const {
  std::vector<Device> cards;                   // GPUs at one PCI address are tiles of one card
  std::vector<Device> tiles;
  std::optional<model::PciAddress> last;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Gpu& gpu = units_[i].gpu_of(machine_);
    if (gpu.vendor != Vendor::intel) continue;
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
      listed.caution = "names " + shown(raw) + ", which is no " + (flat ? "device" : "card or tile") + " here; the driver then shows none";
      listed.devices.clear();
      break;
    }
    listed.devices.push_back(*std::move(device));
  }
  return listed;
}

void Allotment::narrow(const std::string& name, const std::function<bool(const Unit&)>& concerned, const std::vector<Device>& kept) {
  std::vector<bool> keep(units_.size());
  for (const Device& device : kept)
    for (const std::size_t i : device) keep[i] = true;
  bool narrowed = false;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!concerned(units_[i]) || keep[i] || !outer_.visible[i]) continue;
    outer_.visible[i] = false;
    narrowed = true;
  }
  if (narrowed) outer_.named_by += (outer_.named_by.empty() ? "" : " and ") + name;
}

void Allotment::narrow(const std::string& name, Vendor vendor, const Listed& listed) {
  if (!listed.caution.empty()) outer_.cautions.push_back(name + " " + listed.caution);
  narrow(name, [&](const Unit& unit) { return unit.gpu_of(machine_).vendor == vendor; }, listed.devices);
}

void Allotment::nvidia(const std::string& name, const std::string& text, bool pci_order) {
  if (has(Vendor::nvidia)) narrow(name, Vendor::nvidia, cuda_list(text, pci_order));
}

// The layers compose from below. An engine writes one and the same list into all that it knows, meaning the same GPUs each
// time, so a list equal to a lower layer's is not applied again; HIP's own variable is the user's.
void Allotment::amd(const Environment& environment) {
  if (!has(Vendor::amd)) return;
  std::vector<Device> left = in_runtime_order(Vendor::amd);
  std::vector<std::string> texts;
  const std::string* hip = find(environment, "HIP_VISIBLE_DEVICES");
  const bool alias = !hip && !has(Vendor::nvidia);  // HIP takes CUDA's variable in place of its own
  for (const char* name : {"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", alias ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES"}) {
    const std::string* text = find(environment, name);
    if (!text || (text != hip && std::find(texts.begin(), texts.end(), *text) != texts.end())) continue;
    texts.push_back(*text);
    const Listed listed = rocm_list(*text, left, std::string_view(name) == "ROCR_VISIBLE_DEVICES");
    narrow(name, Vendor::amd, listed);
    left = listed.devices;
  }
}

void Allotment::intel(const std::string& name, const std::string& text, const Environment& environment) {
  if (!has(Vendor::intel)) return;
  const std::string* hierarchy = find(environment, "ZE_FLAT_DEVICE_HIERARCHY");
  const bool flat = !hierarchy || (to_lower(*hierarchy) != "composite" && to_lower(*hierarchy) != "combined");
  narrow(name, Vendor::intel, level_zero_list(text, flat));
}

// An engine's list of GPU ids of this node: numbers, names that end in one ("gpu3", "node1-gpu3"), or UUIDs.
void Allotment::engine(const std::string& name, const std::vector<std::string>& ids) {
  if (ids.empty() || ids.size() >= machine_.gpus.size()) return;  // a device cgroup shows just these, or these are all
  std::vector<Device> kept;
  for (const std::string& id : ids) {
    const std::size_t start = id.find_last_not_of("0123456789");
    const auto index = parse_u64(std::string_view(id).substr(start == std::string::npos ? 0 : start + 1));
    std::optional<Device> device;
    for (const Vendor vendor : {Vendor::nvidia, Vendor::amd})
      if (!device && (starts_with_ignoring_case(id, "GPU-") || starts_with_ignoring_case(id, "MIG-"))) device = by_uuid(vendor, id);
    if (!device && index && *index < machine_.gpus.size() && !starts_with_ignoring_case(id, "MIG-")) {
      device.emplace();
      for (std::size_t i = 0; i < units_.size(); ++i)
        if (units_[i].gpu == *index) device->push_back(i);
    }
    if (device) kept.push_back(*std::move(device));
    else outer_.cautions.push_back(name + " names " + shown(id) + ", which is no GPU of this machine");
  }
  narrow(name, [](const Unit&) { return true; }, kept);
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> result;
  for (const std::string_view line : split_lines(text))
    for (const std::string_view part : split(line, ','))
      for (const std::string_view word : split(part, ' '))
        if (!trim(word).empty()) result.emplace_back(trim(word));
  return result;
}

void Allotment::engines(const Environment& environment) {
  // A step has its own list within the job's.
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (const std::string* text = find(environment, name)) {
      engine(name, words(*text));
      break;
    }
  for (const auto& [name, text] : environment)  // one variable for each resource map, whatever the site calls it
    if (name.starts_with("SGE_HGR_") && contains_ignoring_case(name, "gpu") && to_lower(text) != "none") engine(name, words(text));
  if (const std::string* text = find(environment, "PBS_GPUFILE")) {
    if (text->starts_with("/")) outer_.cautions.push_back("PBS_GPUFILE could not be read, so it narrows nothing");
    else engine("PBS_GPUFILE", words(*text));
  }
}

void Allotment::read(const Environment& environment) {
  const std::string* order = find(environment, "CUDA_DEVICE_ORDER");
  const bool pci_order = order && *order == "PCI_BUS_ID";
  if (const auto& text = machine_.outer.visible_devices) {
    const std::string name = "the machine's outer.visible_devices";
    if (has(Vendor::nvidia)) nvidia(name, *text, pci_order);
    else if (has(Vendor::amd)) narrow(name, Vendor::amd, rocm_list(*text, in_runtime_order(Vendor::amd), true));
    else intel(name, *text, environment);
  }
  if (const std::string* text = find(environment, "CUDA_VISIBLE_DEVICES")) nvidia("CUDA_VISIBLE_DEVICES", *text, pci_order);
  amd(environment);
  if (const std::string* text = find(environment, "ZE_AFFINITY_MASK")) intel("ZE_AFFINITY_MASK", *text, environment);
  engines(environment);
  // Read by the container runtime when the container is made; here it only explains what is missing.
  if (const std::string* text = find(environment, "NVIDIA_VISIBLE_DEVICES"); text && (*text == "none" || *text == "void") && !has(Vendor::nvidia))
    outer_.cautions.push_back("NVIDIA_VISIBLE_DEVICES=" + *text + ": this container was made without NVIDIA GPUs");
}

}  // namespace

Outer outer_allotment(const model::Snapshot& snapshot, const std::vector<Unit>& units, const Environment& environment) {
  Allotment allotment(snapshot, units);
  allotment.read(environment);
  return std::move(allotment).take();
}

}  // namespace thole::plan
