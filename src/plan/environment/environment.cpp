#include "plan/environment/environment.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json.hpp"

namespace thole::plan {

using model::Gpu;
using model::Unit;
using model::Vendor;
using model::VendorRow;

std::optional<Ids> parse_ids(std::string_view text) {
  if (text == "auto") return Ids::automatic;
  if (text == "uuid") return Ids::uuid;
  if (text == "index") return Ids::index;
  return std::nullopt;
}

namespace {

// ROCr knows "GPU-" and the 16 hexadecimal digits of the unique id. Many cards have none, and partitions share one.
std::string rocm_name(const Unit& unit, const Gpu& gpu) {
  const bool known = gpu.uuid.size() == 20 && starts_with_ignoring_case(gpu.uuid, "GPU-") &&
                     gpu.uuid.find_first_not_of("0123456789abcdefABCDEF", 4) == std::string::npos;
  return known && !unit.instance && !gpu.part ? gpu.uuid : "";
}

// What its runtime knows it by, whatever else is there; "" where it goes by number only.
std::string runtime_name(const Unit& unit, const model::Machine& machine) {
  const Gpu& gpu = unit.gpu_of(machine);
  switch (model::row_of(gpu.vendor).rules) {
    case model::ListRules::cuda: return unit.instance ? gpu.mig[*unit.instance].uuid : gpu.uuid;
    case model::ListRules::rocm: return rocm_name(unit, gpu);
    case model::ListRules::level_zero: break;
  }
  return "";
}

class Writer {
 public:
  Writer(const std::vector<std::size_t>& chosen, const std::vector<Unit>& units, const model::Snapshot& snapshot, Ids ids,
         bool certain)
      : chosen_(chosen), units_(units), machine_(snapshot.machine), ids_(ids), certain_(certain) {}

  bool uses(Vendor vendor) const {
    return std::any_of(chosen_.begin(), chosen_.end(), [&](std::size_t i) { return vendor_of(i) == vendor; });
  }
  bool here(Vendor vendor) const {
    return std::any_of(machine_.gpus.begin(), machine_.gpus.end(), [&](const Gpu& gpu) { return gpu.vendor == vendor; });
  }
  void write(const VendorRow& row, Variables& variables) const;
  std::string listed_as(std::size_t i) const;    // in its vendor's lowest list

 private:
  void write_layers(const VendorRow& row, Variables& variables) const;
  std::string counting(Vendor vendor) const {  // "0,1,…": all that a lower layer left
    std::size_t n = 0;
    return list(vendor, [&](std::size_t) { return std::to_string(n++); });
  }
  const Gpu& gpu_of(std::size_t i) const { return units_[i].gpu_of(machine_); }
  Vendor vendor_of(std::size_t i) const { return gpu_of(i).vendor; }

  template <class Name>
  std::string list(Vendor vendor, Name name) const {
    std::vector<std::string> names;
    for (const std::size_t i : chosen_)
      if (vendor_of(i) == vendor) names.push_back(name(i));
    return join(names, ",");
  }
  // Among the vendor's GPUs in PCI order, which is how its runtime counts them; partitioned ones count once.
  std::size_t position_of_gpu(std::size_t i) const {
    std::size_t position = 0;
    for (std::size_t g = 0; g < units_[i].gpu; ++g) position += machine_.gpus[g].vendor == vendor_of(i);
    return position;
  }
  // Among the vendor's units: partitions and tiles are devices of their own to ROCr and (flat) to Level Zero. ROCr counts in
  // the kernel's order and both count graphics built into the CPU, which are no GPUs here: then the machine gives the number.
  std::size_t position_of_unit(std::size_t i) const {
    if (const auto& number = gpu_of(i).cuda_index; number && !units_[i].instance) return static_cast<std::size_t>(*number);
    std::size_t position = 0;
    for (std::size_t j = 0; j < i; ++j) position += vendor_of(j) == vendor_of(i);
    return position;
  }
  std::string number_of(std::size_t i) const { return std::to_string(position_of_unit(i)); }
  std::string number_or_uuid(std::size_t i) const;
  bool all_have_names(Vendor vendor) const;

  const std::vector<std::size_t>& chosen_;
  const std::vector<Unit>& units_;
  const model::Machine& machine_;
  Ids ids_;
  bool certain_;
};

std::string Writer::number_or_uuid(std::size_t i) const {
  const Unit& unit = units_[i];
  if (unit.instance) {                         // a number never means an instance
    const std::string& uuid = gpu_of(i).mig[*unit.instance].uuid;
    if (ids_ == Ids::index) throw Error(ErrorCode::usage, "a MIG instance has no index").about(unit.label).hint("--ids uuid");
    if (uuid.empty()) throw Error(ErrorCode::unavailable, "the UUID of this MIG instance cannot be read").about(unit.label);
    return uuid;
  }
  // Several frameworks crash on UUIDs, but a number that is off by one is somebody else's GPU.
  const bool number = ids_ == Ids::index || gpu_of(i).uuid.empty() || (ids_ == Ids::automatic && certain_);
  return number ? std::to_string(position_of_gpu(i)) : gpu_of(i).uuid;
}

bool Writer::all_have_names(Vendor vendor) const {
  return std::ranges::none_of(
      chosen_, [&](std::size_t i) { return vendor_of(i) == vendor && runtime_name(units_[i], machine_).empty(); });
}

std::string Writer::listed_as(std::size_t i) const {
  switch (model::row_of(vendor_of(i)).rules) {
    case model::ListRules::cuda: return number_or_uuid(i);
    case model::ListRules::rocm:
      return ids_ != Ids::index && all_have_names(vendor_of(i)) ? runtime_name(units_[i], machine_) : number_of(i);
    case model::ListRules::level_zero: break;
  }
  return number_of(i);
}

// What is above the lowest list would filter a second time what that has left: it goes. A list of another vendor's that is
// taken for the uppermost must be hidden by one.
void Writer::write_layers(const VendorRow& row, Variables& variables) const {
  const auto above = model::filled(row.lists).subspan(1);
  if (above.empty()) return;
  for (const std::string_view name : above.first(above.size() - 1)) variables.unset.emplace_back(name);
  const std::string top(above.back());
  const std::string others(row.also_reads ? model::row_of(*row.also_reads).lists.front() : "");
  const bool others_is_set = variables.set.contains(others);
  if (others_is_set && uses(row.vendor)) variables.set[top] = counting(row.vendor);
  else variables.unset.push_back(top);
  if (row.also_reads && !others_is_set) variables.unset.push_back(others);
}

void Writer::write(const VendorRow& row, Variables& variables) const {
  for (const model::Setting& one : model::filled(row.beside)) variables.set.emplace(one.name, one.value);
  variables.set.emplace(row.lists.front(), list(row.vendor, [&](std::size_t i) { return listed_as(i); }));
  write_layers(row, variables);
}

std::string gpus_json(const std::vector<std::size_t>& chosen, const std::vector<Unit>& units, const model::Machine& machine,
                      const Writer& writer) {
  model::Json list = model::Json::array();
  for (const std::size_t i : chosen) {
    const Unit& unit = units[i];
    const Gpu& gpu = unit.gpu_of(machine);
    model::Json one;
    const std::string& uuid = unit.instance ? gpu.mig[*unit.instance].uuid : gpu.uuid;
    const auto text = [](const std::string& value) { return value.empty() ? model::Json() : model::Json(value); };
    one["key"] = unit.key;
    one["uuid"] = text(uuid);
    one["pci"] = gpu.pci ? model::Json(gpu.pci->to_string()) : model::Json();
    one["index"] = unit.gpu;
    one["listed_as"] = writer.listed_as(i);
    if (unit.instance) {
      one["instance"] = *unit.instance;
      one["parent"] = text(gpu.uuid);
    }
    one["vendor"] = to_string(gpu.vendor);
    one["model"] = text(unit.model_of(machine));
    const auto memory = unit.memory_mib_of(machine);
    one["memory_mib"] = memory ? model::Json(*memory) : model::Json();
    list.push_back(std::move(one));
  }
  return model::dump(list, -1);
}

// JAX takes 75% of a GPU at start, TensorFlow all of it: both must be told of a share. Advice, not a limit.
void advise_sharers(const std::vector<std::size_t>& chosen, const std::vector<Unit>& units, const model::Snapshot& snapshot,
                    const model::Request& request, Variables& variables) {
  variables.set["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  std::optional<std::uint64_t> largest;        // one fraction for all: on a smaller GPU the share is smaller too
  for (const std::size_t i : chosen)
    if (const auto memory = units[i].memory_mib_of(snapshot.machine); memory && *memory > 0)
      largest = std::max(largest.value_or(0), *memory);
  if (!largest || !request.memory_mib) return;
  const double fraction = static_cast<double>(*request.memory_mib) / static_cast<double>(*largest);
  variables.set["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fmt::format("{:.3f}", std::floor(std::min(fraction, 1.0) * 1000) / 1000);
}

}  // namespace

Variables environment(const std::vector<std::size_t>& chosen, const std::vector<Unit>& units, const model::Snapshot& snapshot,
                      const model::Request& request, Ids ids, bool numbering_certain, const std::string& claim_id) {
  const Writer writer(chosen, units, snapshot, ids, numbering_certain);
  Variables variables;
  auto& set = variables.set;
  const bool none = chosen.empty();
  for (const VendorRow& row : model::vendors) {
    if (!row.pci_order.name.empty()) set.emplace(row.pci_order.name, row.pci_order.value);
    if (none || writer.here(row.vendor)) writer.write(row, variables);
  }
  set["THOLE_CLAIM"] = claim_id;
  set["THOLE_GPUS"] = gpus_json(chosen, units, snapshot.machine, writer);
  if (request.share && !none) advise_sharers(chosen, units, snapshot, request, variables);
  return variables;
}

bool have_lasting_names(const std::vector<std::size_t>& chosen, const std::vector<Unit>& units,
                        const model::Machine& machine) {
  return std::ranges::none_of(chosen, [&](std::size_t i) { return runtime_name(units[i], machine).empty(); });
}

}  // namespace thole::plan
