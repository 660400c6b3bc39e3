// The outer allotment: what the environment and the machine leave us of its GPUs.
//
// How this works. Every variable is turned into a list of units in the order in which it names them, by the rules of
// whoever reads it (research of CUDA, ROCr, Level Zero and the engines: docs/environment.md), and then into a mask. Masks are
// only ever combined by "and". What a claim of ours has written is read by what it told of it (told.hpp). An engine's own
// list (SLURM_JOB_GPUS, SGE_HGR_gpu, PBS_GPUFILE) counts on top of the vendor's variable, because a user may have unset that
// one; but it numbers the node's GPUs, so when a device cgroup already hides the others (as many GPUs are shown as it names) it
// says nothing more.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "plan/environment/told.hpp"
#include "plan/environment/visible_lists.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

using model::Gpu;
using model::ListRules;
using model::Unit;
using model::Vendor;
using model::VendorRow;

namespace {

constexpr const char* no_gpu_here = "none";

std::string_view first_label(std::string_view host) { return host.substr(0, host.find('.')); }

const std::string* find(const Environment& environment, std::string_view name) {
  if (name.empty()) return nullptr;           // a vendor's row may have none
  const auto it = environment.find(std::string(name));
  return it == environment.end() ? nullptr : &it->second;
}

bool counts_in_pci_order(const VendorRow& row, const Environment& environment) {
  const std::string* order = find(environment, row.pci_order.name);
  return order && *order == row.pci_order.value;
}

class Allotment {
 public:
  Allotment(const model::Snapshot& snapshot, const std::vector<Unit>& units, bool inside)
      : machine_(snapshot.machine), units_(units), inside_(inside), lists_(snapshot.machine, units) {
    outer_.visible.assign(units.size(), true);
  }

  void read(const Environment& environment);
  Outer take() && { return std::move(outer_); }
  void put_in_order(const Environment& environment);

 private:
  bool has(Vendor vendor) const {
    return std::any_of(machine_.gpus.begin(), machine_.gpus.end(), [&](const Gpu& gpu) { return gpu.vendor == vendor; });
  }
  Listed lowest_list(const VendorRow& row, const std::string& text, const Environment& environment) const;
  std::optional<Listed> told_list(const VendorRow& row, const std::string& text) const;
  void read_lists(const VendorRow& row, const Environment& environment);
  void engines(const Environment& environment);
  void engine(const std::string& name, const std::vector<std::string>& ids);
  void narrow(const std::string& name, Vendor vendor, const Listed& listed);
  void narrow(const std::string& name, const std::function<bool(const Unit&)>& concerned, const std::vector<Device>& kept);

  const model::Machine& machine_;
  const std::vector<Unit>& units_;
  const bool inside_;                         // of a claim of this machine's
  VisibleLists lists_;
  std::map<Vendor, std::vector<Device>> numbered_;  // as the vendor's variable lists them, where there is one
  std::optional<ToldGpus> told_;
  Outer outer_;
};

void Allotment::narrow(const std::string& name, const std::function<bool(const Unit&)>& concerned,
                       const std::vector<Device>& kept) {
  std::vector<bool> keep(units_.size());
  for (const Device& device : kept)
    for (const std::size_t i : device) keep[i] = true;
  bool narrowed = false;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!concerned(units_[i]) || keep[i] || !outer_.visible[i]) continue;
    outer_.visible[i] = false;
    narrowed = true;
  }
  if (!narrowed) return;
  outer_.named_by += (outer_.named_by.empty() ? "" : " and ") + name;
  outer_.variables.push_back(name);
}

void Allotment::narrow(const std::string& name, Vendor vendor, const Listed& listed) {
  if (!listed.caution.empty()) outer_.cautions.push_back(name + " " + listed.caution);
  numbered_[vendor] = listed.devices;
  narrow(name, [&](const Unit& unit) { return unit.gpu_of(machine_).vendor == vendor; }, listed.devices);
}

Listed Allotment::lowest_list(const VendorRow& row, const std::string& text, const Environment& environment) const {
  switch (row.rules) {
    case ListRules::cuda: return lists_.cuda(row, text, counts_in_pci_order(row, environment));
    case ListRules::rocm: return lists_.rocm(row, text, lists_.in_runtime_order(row.vendor), true);
    case ListRules::level_zero: break;
  }
  const std::string* hierarchy = find(environment, "ZE_FLAT_DEVICE_HIERARCHY");
  const bool flat = !hierarchy || (to_lower(*hierarchy) != "composite" && to_lower(*hierarchy) != "combined");
  return lists_.level_zero(row, text, flat);
}

// Where none of the GPUs is here that were told of, that may have been on another machine.
std::optional<Listed> Allotment::told_list(const VendorRow& row, const std::string& text) const {
  const auto is_here = [&](const std::string& key) { return model::index_of(key, units_).has_value(); };
  if (!told_ || (!inside_ && std::ranges::none_of(told_->keys(), is_here))) return std::nullopt;
  const auto keys = told_->shown_by(row, text);
  if (!keys) return std::nullopt;
  Listed listed;
  for (const std::string& key : *keys)
    if (const auto unit = model::index_of(key, units_)) listed.devices.push_back({*unit});
  return listed;
}

// The layers compose from below. An engine writes one and the same list into all that it knows, meaning the same GPUs each
// time, so a list equal to a lower layer's is not applied again; the uppermost is the user's, where another vendor's list does
// not stand for it.
void Allotment::read_lists(const VendorRow& row, const Environment& environment) {
  if (!has(row.vendor)) return;
  const auto names = model::filled(row.lists);
  const std::string* own = find(environment, names.back());
  std::vector<Device> left = lists_.in_runtime_order(row.vendor);
  std::vector<std::string> texts;
  for (std::size_t layer = 0; layer < names.size(); ++layer) {
    const bool lowest = layer == 0, uppermost = layer == names.size() - 1;
    const bool others = uppermost && !own && row.also_reads && !has(*row.also_reads);
    const std::string_view name = others ? model::row_of(*row.also_reads).lists.front() : names[layer];
    const std::string* text = find(environment, name);
    if (!text || (text != own && std::find(texts.begin(), texts.end(), *text) != texts.end())) continue;
    texts.push_back(*text);
    std::optional<Listed> told = lowest ? told_list(row, *text) : std::nullopt;
    Listed listed = told     ? *std::move(told)
                    : lowest ? lowest_list(row, *text, environment)
                             : lists_.rocm(row, *text, left, false);
    narrow(std::string(name), row.vendor, listed);
    left = std::move(listed.devices);
  }
}

// An engine's list of GPU ids of this node: numbers, names that end in one ("gpu3", "node1-gpu3"), or UUIDs.
void Allotment::engine(const std::string& name, const std::vector<std::string>& ids) {
  if (ids.empty() || ids.size() >= machine_.gpus.size()) return;  // a device cgroup shows just these, or these are all
  std::vector<Device> kept;
  for (const std::string& id : ids) {
    const std::size_t start = id.find_last_not_of("0123456789");
    const auto index = parse_u64(std::string_view(id).substr(start == std::string::npos ? 0 : start + 1));
    std::optional<Device> device;
    const bool uuid = starts_with_ignoring_case(id, "GPU-") || starts_with_ignoring_case(id, "MIG-");
    for (const VendorRow& row : model::vendors)
      if (!device && uuid && row.rules != ListRules::level_zero) device = lists_.by_uuid(row.vendor, id);
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
  for (const auto& [name, text] : environment) {  // one variable for each resource map, whatever the site calls it
    if (!name.starts_with("SGE_HGR_") || !contains_ignoring_case(name, "gpu")) continue;
    if (to_lower(text) != "none") engine(name, words(text));
  }
  if (const std::string* text = find(environment, "PBS_GPUFILE")) {
    if (text->starts_with("/")) outer_.cautions.push_back("PBS_GPUFILE could not be read, so it narrows nothing");
    else if (*text == no_gpu_here) narrow("PBS_GPUFILE", [](const Unit&) { return true; }, {});
    else engine("PBS_GPUFILE", words(*text));
  }
}

void Allotment::read(const Environment& environment) {
  told_ = ToldGpus::read(environment);
  const auto here = [&](const VendorRow& row) { return has(row.vendor); };
  if (const auto& text = machine_.outer.visible_devices)
    if (const auto first = std::ranges::find_if(model::vendors, here); first != std::end(model::vendors))
      narrow("the machine's outer.visible_devices", first->vendor, lowest_list(*first, *text, environment));
  for (const VendorRow& row : model::vendors) read_lists(row, environment);
  engines(environment);
  // Read by the container runtime when the container is made; here it only explains what is missing.
  for (const VendorRow& row : model::vendors) {
    const std::string* container = find(environment, row.container);
    if (container && (*container == "none" || *container == "void") && !here(row))
      outer_.cautions.push_back(
          fmt::format("{}={}: this container was made without {} GPUs", row.container, *container, row.called));
  }
}

void Allotment::put_in_order(const Environment& environment) {
  for (const VendorRow& row : model::vendors) {
    const auto listed = numbered_.find(row.vendor);
    const auto devices = listed != numbered_.end()               ? listed->second
                         : counts_in_pci_order(row, environment) ? lists_.in_pci_order(row.vendor)
                                                                 : lists_.in_runtime_order(row.vendor);
    for (const Device& device : devices)
      for (const std::size_t unit : device)
        if (outer_.visible[unit]) outer_.order.push_back(unit);
  }
}

}  // namespace

std::string gpus_of_host(std::string_view gpu_file, std::string_view host) {
  std::vector<std::string> here;
  bool elsewhere = false;
  for (std::string_view line : split_lines(gpu_file)) {
    line = trim(line);
    if (line.empty()) continue;
    const std::size_t dash = line.rfind('-');   // host names have dashes too
    if (dash == std::string_view::npos || to_lower(first_label(line.substr(0, dash))) == to_lower(first_label(host)))
      here.emplace_back(line.substr(dash == std::string_view::npos ? 0 : dash + 1));
    else
      elsewhere = true;
  }
  return here.empty() && elsewhere ? no_gpu_here : join(here, ",");
}

Environment masks_alone(Environment environment) {
  std::erase_if(environment, [](const auto& entry) {
    const std::string_view name = entry.first;
    return name == "SLURM_STEP_GPUS" || name == "SLURM_JOB_GPUS" || name == "PBS_GPUFILE" || name.starts_with("SGE_HGR_");
  });
  return environment;
}

Outer outer_allotment(const model::Snapshot& snapshot, const std::vector<Unit>& units, const Environment& environment,
                      bool inside) {
  Allotment allotment(snapshot, units, inside);
  allotment.read(environment);
  allotment.put_in_order(environment);
  return std::move(allotment).take();
}

}  // namespace thole::plan
