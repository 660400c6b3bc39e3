// A machine as JSON. Unknown is null; what is known to be unsupported or failed is listed beside the null.
#include "base/text.hpp"
#include "model/json.hpp"
#include "model/json_null.hpp"

namespace thole::model {

namespace {

// Writes a metric's value or null, and remembers why it is null.
class Metrics {
 public:
  explicit Metrics(Json& object) : object_(object) {}

  template <class T>
  void add(const char* key, const Metric<T>& metric) { add(key, metric, metric.known() ? Json(*metric) : Json(nullptr)); }

  template <class T>
  void add(const char* key, const Metric<T>& metric, Json value) {
    object_[key] = std::move(value);
    if (metric.state() == Metric<T>::State::unsupported) unsupported_.push_back(key);
    if (metric.state() == Metric<T>::State::failed) errors_[key] = metric.why();
  }

  // For what few backends can tell: not even a null where nobody asked.
  template <class T>
  void add_if_asked(const char* key, const Metric<T>& metric) {
    if (metric.state() != Metric<T>::State::unknown) add(key, metric);
  }

  void finish() {
    if (!unsupported_.empty()) object_["unsupported"] = std::move(unsupported_);
    if (!errors_.empty()) object_["errors"] = std::move(errors_);
  }

 private:
  Json& object_;
  Json unsupported_ = Json::array(), errors_ = Json::object();
};

Json to_json(const GpuProcess& process) {
  Json json = {{"pid", process.pid > 0 ? Json(process.pid) : Json(nullptr)}, {"user", or_null(process.user)},
               {"command", or_null(process.command)}, {"kind", to_string(process.kind)}};
  Metrics metrics(json);
  metrics.add("memory_mib", process.memory_mib);
  json["watch"] = process.watch;
  metrics.finish();
  return json;
}

// To the millisecond, which is what a span of a task is compared with.
std::string exact_iso(WallTime when) {
  const auto thousandths = (when - std::chrono::floor<Seconds>(when)).count();
  std::string text = format_iso(when);
  if (thousandths != 0) text.insert(text.size() - 1, fmt::format(".{:03}", thousandths));
  return text;
}

Json to_json(const ProcessAccount& account) {
  return {{"started", exact_iso(account.started)}, {"peak_memory_mib", account.peak_memory_mib}};
}

Json to_json(const Link& link) {
  Json json = {{"to", link.to.to_string()}, {"kind", to_string(link.kind)}};
  if (link.count) json["count"] = *link.count;
  if (link.weight) json["weight"] = *link.weight;
  return json;
}

Json to_json(const Instance& instance) {
  return {{"uuid", or_null(instance.uuid)},
          {"profile", or_null(instance.profile)},
          {"memory_mib", or_null(instance.memory_mib)},
          {"instance", instance.instance[0] < 0 ? Json(nullptr) : Json(instance.instance)},
          {"use", to_json(instance.use)}};
}

Json to_json(const Cpu& cpu) {
  return {{"id", cpu.id}, {"core", or_null(cpu.core)}, {"l3", or_null(cpu.l3)}, {"numa", or_null(cpu.numa)},
          {"package", or_null(cpu.package)}};
}

Json to_json(const NumaNode& node) { return {{"id", node.id}, {"memory_mib", or_null(node.memory_mib)}}; }

Json to_json(const Nic& nic) {
  Json json = {
      {"name", nic.name}, {"pci", or_null(nic.pci)}, {"numa", or_null(nic.numa)}, {"rate_gbps", or_null(nic.rate_gbps)}};
  for (const Link& link : nic.links) json["links"].push_back(to_json(link));
  return json;
}

// After all it is used for: names of this file are not looked up where a template is instantiated.
template <class T>
Json list(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_json(value));
  return json;
}

}  // namespace

Json to_json(const Use& use) {
  if (use == Use{}) return nullptr;
  Json json = Json::object();
  Metrics metrics(json);
  metrics.add("memory_used_mib", use.memory_used_mib);
  metrics.add_if_asked("memory_free_mib", use.memory_free_mib);
  metrics.add("utilization_percent", use.utilization_percent);
  metrics.add("memory_utilization_percent", use.memory_utilization_percent);
  metrics.add("temperature_c", use.temperature_c);
  metrics.add("power_w", use.power_w);
  metrics.add("power_limit_w", use.power_limit_w);
  metrics.add("processes", use.processes, use.processes.known() ? list(*use.processes) : Json(nullptr));
  metrics.finish();
  return json;
}

Json to_json(const Gpu& gpu) {
  Json json = {{"uuid", or_null(gpu.uuid)},
               {"vendor", to_string(gpu.vendor)},
               {"model", or_null(gpu.model)},
               {"pci", or_null(gpu.pci)},
               {"part", or_null(gpu.part)},
               {"minor", or_null(gpu.minor)},
               {"cuda_index", or_null(gpu.cuda_index)},
               {"memory_mib", or_null(gpu.memory_mib)},
               {"numa", or_null(gpu.numa)},
               {"near_cpus", {{"node", or_null(gpu.near_cpus.node)}, {"package", or_null(gpu.near_cpus.package)}}},
               {"links", list(gpu.links)},
               {"mig_mode", gpu.mig_mode},
               {"mig", list(gpu.mig)},
               {"coherent", gpu.coherent}};
  Metrics metrics(json);
  if (gpu.memory_numa) json["memory_numa"] = *gpu.memory_numa;
  if (!gpu.serial.empty()) json["serial"] = gpu.serial;
  if (!gpu.driver.empty()) json["driver"] = gpu.driver;
  metrics.add("display", gpu.display);
  metrics.add_if_asked("monitor", gpu.monitor);
  metrics.add("compute_mode", gpu.compute_mode);
  json["health"] = to_string(gpu.health);
  json["health_reason"] = or_null(gpu.health_reason);
  json["last_xid"] = or_null(gpu.last_xid);
  json["use"] = to_json(gpu.use);
  if (gpu.accounts) json["accounts"] = list(*gpu.accounts);
  metrics.finish();
  return json;
}

Json to_json(const Machine& machine) {
  Json json = {{"schema", machine_schema}, {"name", or_null(machine.name)}};
  if (!machine.hwloc_xml.empty()) json["hwloc_xml"] = machine.hwloc_xml;
  json["cpus"] = list(machine.cpus);
  json["numa"] = list(machine.numa);
  json["gpus"] = list(machine.gpus);
  json["nics"] = list(machine.nics);
  json["outer"] = {{"visible_devices", or_null(machine.outer.visible_devices)},
                   {"allowed_cpus", or_null(machine.outer.allowed_cpus)}};
  return json;
}

}  // namespace thole::model
