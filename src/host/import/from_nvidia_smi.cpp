#include "host/import/from_nvidia_smi.hpp"

#include <algorithm>
#include <pugixml.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

// The text of the first of these elements that says something.
std::string text_of(const pugi::xml_node& node, std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    const std::string text(trim(node.first_element_by_path(path).child_value()));
    if (!text.empty() && text != "N/A" && text != "[N/A]" && text != "Unknown Error" && text != "[Not Supported]") return text;
  }
  return "";
}

// "81920 MiB", "31 C", "61.47 W", "0 %": the number in front.
std::optional<double> amount(const pugi::xml_node& node, std::initializer_list<const char*> paths) {
  const std::string text = text_of(node, paths);
  const auto number = parse_double(std::string_view(text).substr(0, text.find(' ')));
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<std::uint64_t> mib(const pugi::xml_node& node, std::initializer_list<const char*> paths) {
  return parse_size_mib(text_of(node, paths));
}

std::optional<int> whole(const pugi::xml_node& node, std::initializer_list<const char*> paths) {
  const auto number = parse_u64(text_of(node, paths));
  return number && *number < 1u << 20 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

template <class T>
model::Metric<T> metric(const std::optional<T>& value) {
  return value ? model::Metric<T>(*value) : model::Metric<T>::unsupported();
}

model::GpuProcess::Kind kind_of(const std::string& type) {
  if (type.starts_with("M")) return model::GpuProcess::Kind::mps;  // "M+C"
  if (type == "G") return model::GpuProcess::Kind::graphics;
  return type == "C+G" ? model::GpuProcess::Kind::both : model::GpuProcess::Kind::compute;
}

// Those of one MIG instance, or with no instance all.
model::Metric<std::vector<model::GpuProcess>> processes_of(const pugi::xml_node& gpu, const std::array<int, 2>* instance) {
  const pugi::xml_node list = gpu.child("processes");
  if (!list || trim(list.child_value()) == "N/A") return model::Metric<std::vector<model::GpuProcess>>::unsupported();
  std::vector<model::GpuProcess> found;
  for (const pugi::xml_node& each : list.children("process_info")) {
    const auto pid = whole(each, {"pid"});
    if (!pid || *pid == 0) continue;
    if (instance &&
        (whole(each, {"gpu_instance_id"}) != (*instance)[0] || whole(each, {"compute_instance_id"}) != (*instance)[1]))
      continue;
    model::GpuProcess& process = found.emplace_back();
    process.pid = *pid;
    process.command = text_of(each, {"process_name"});
    process.kind = kind_of(text_of(each, {"type"}));
    process.memory_mib = metric(mib(each, {"used_memory"}));
  }
  return found;
}

model::Use use_of(const pugi::xml_node& gpu) {
  model::Use use;
  use.memory_used_mib = metric(mib(gpu, {"fb_memory_usage/used", "memory_usage/used"}));
  use.utilization_percent = metric(amount(gpu, {"utilization/gpu_util"}));
  use.memory_utilization_percent = metric(amount(gpu, {"utilization/memory_util"}));
  use.temperature_c = metric(amount(gpu, {"temperature/gpu_temp"}));
  use.power_w = metric(amount(gpu, {"gpu_power_readings/power_draw", "gpu_power_readings/instant_power_draw",
                                    "gpu_power_readings/average_power_draw", "power_readings/power_draw"}));
  use.power_limit_w = metric(amount(gpu, {"gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit",
                                          "power_readings/enforced_power_limit", "power_readings/power_limit"}));
  use.processes = processes_of(gpu, nullptr);
  return use;
}

model::Metric<std::string> compute_mode_of(const std::string& text) {
  if (text == "Default") return std::string("default");
  if (text.starts_with("Exclusive")) return std::string("exclusive-process");
  if (text == "Prohibited") return std::string("prohibited");
  return model::Metric<std::string>::unsupported();
}

model::Instance instance_of(const pugi::xml_node& gpu, const pugi::xml_node& mig) {
  model::Instance instance;
  instance.instance = {whole(mig, {"gpu_instance_id"}).value_or(-1), whole(mig, {"compute_instance_id"}).value_or(-1)};
  instance.uuid = text_of(mig, {"uuid"});
  // The report does not name instances; this is the name that drivers before 470 gave them, and that newer ones still take.
  if (instance.uuid.empty())
    instance.uuid = fmt::format("MIG-{}/{}/{}", text_of(gpu, {"uuid"}), instance.instance[0], instance.instance[1]);
  instance.memory_mib = mib(mig, {"fb_memory_usage/total"});
  instance.use.memory_used_mib = metric(mib(mig, {"fb_memory_usage/used"}));
  instance.use.processes = processes_of(gpu, &instance.instance);
  return instance;
}

model::Gpu gpu_of(const pugi::xml_node& node) {
  model::Gpu gpu;
  gpu.vendor = model::Vendor::nvidia;
  gpu.pci = model::PciAddress::parse(node.attribute("id").value());
  if (!gpu.pci) gpu.pci = model::PciAddress::parse(text_of(node, {"pci/pci_bus_id"}));
  gpu.uuid = text_of(node, {"uuid"});
  gpu.model = text_of(node, {"product_name"});
  gpu.minor = whole(node, {"minor_number"});
  gpu.memory_mib = mib(node, {"fb_memory_usage/total", "memory_usage/total"});
  gpu.mig_mode = text_of(node, {"mig_mode/current_mig"}) == "Enabled";
  gpu.coherent = text_of(node, {"addressing_mode"}) == "ATS";
  gpu.compute_mode = compute_mode_of(text_of(node, {"compute_mode"}));
  if (const std::string active = text_of(node, {"display_active"}); !active.empty()) gpu.display = active == "Enabled";
  for (const pugi::xml_node& mig : node.child("mig_devices").children("mig_device")) gpu.mig.push_back(instance_of(node, mig));
  gpu.use = use_of(node);
  return gpu;
}

}  // namespace

model::Machine machine_of_nvidia_smi(const std::string& xml, const std::string& what) {
  pugi::xml_document document;
  if (const auto parsed = document.load_buffer(xml.data(), xml.size()); !parsed)
    throw Error(ErrorCode::usage, fmt::format("no XML: {} at byte {}", parsed.description(), parsed.offset))
        .about(printable(what, 200));
  const pugi::xml_node log = document.child("nvidia_smi_log");
  if (!log)
    throw Error(ErrorCode::usage, "no report of nvidia-smi -q -x: it has no nvidia_smi_log").about(printable(what, 200));
  model::Machine machine;
  for (const pugi::xml_node& gpu : log.children("gpu")) machine.gpus.push_back(gpu_of(gpu));
  std::stable_sort(machine.gpus.begin(), machine.gpus.end(), [](const model::Gpu& a, const model::Gpu& b) {
    return std::pair(!a.pci, a.pci.value_or(model::PciAddress{})) < std::pair(!b.pci, b.pci.value_or(model::PciAddress{}));
  });
  return machine;
}

}  // namespace thole::host
