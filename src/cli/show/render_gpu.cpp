// `status GPU`: one GPU in full, and `status --list`.
#include <algorithm>

#include "base/text.hpp"
#include "cli/show/render.hpp"

namespace thole::cli {

namespace {

using app::UnitOverview;

constexpr std::size_t name_width = 14;

class Sheet {
 public:
  Sheet(const app::Overview& overview, const app::NamedGpus& named, const Screen& screen)
      : overview_(overview), named_(named), screen_(screen) {}

  std::string of(std::size_t index) {
    const model::Gpu& gpu = overview_.snapshot.machine.gpus[index];
    text_ = ink(screen_, Ink::bold,
                fmt::format("GPU {}  {}", index, gpu.model.empty() ? "model unknown" : printable(gpu.model, 60))) +
            "\n";
    const auto units = units_of(index);
    for (const UnitOverview* unit : units)
      if (!unit->unit.instance) add_claims(*unit);
    add_identity(gpu);
    add_use(gpu.use, gpu.memory_mib);
    add_condition(gpu);
    add_surroundings(gpu);
    for (const UnitOverview* unit : units)
      if (unit->unit.instance) add_instance(*unit, gpu.mig[*unit->unit.instance]);
    if (gpu.mig_mode && gpu.mig.empty())
      line("instances", "none: MIG mode is on, so nothing can be claimed here until some are made");
    return text_;
  }

 private:
  std::vector<const UnitOverview*> units_of(std::size_t gpu) const {
    std::vector<const UnitOverview*> units;
    for (std::size_t unit : named_.units)
      if (overview_.units[unit].unit.gpu == gpu) units.push_back(&overview_.units[unit]);
    return units;
  }
  void line(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += "  " + ink(screen_, Ink::dim, name) + std::string(name_width - std::min(name.size(), name_width - 1), ' ') +
             wrap_value(value) + "\n";
  }
  std::string wrap_value(std::string_view value) const {
    std::string text = paragraph(screen_, value, name_width + 2, name_width + 2);
    text.pop_back();
    return text;
  }

  void add_claims(const UnitOverview& unit) {
    std::string state = app::to_string(unit.state);
    if (!unit.visible) state += fmt::format(" (not yours to take: {})", overview_.outer.named_by);
    line("state", state);
    line("", printable(unit.why));
    for (const model::Holding& holding : unit.holdings) {
      std::string who = fmt::format("{} since {}", holder_name(holding),
                                    holding.since == WallTime{} ? "?" : format_local(holding.since, overview_.now));
      if (holding.until) who += " until " + format_local(*holding.until, overview_.now);
      if (holding.memory_mib) who += ", budget " + format_mib(*holding.memory_mib);
      if (holding.pid > 0) who += fmt::format(", pid {}", holding.pid);
      line(holding.shared ? "shared by" : "claimed by", who);
      line("claim", holding.id.empty() ? "no note of its owner agrees with the lock" : printable(holding.id, 40));
      line("command", printable(holding.command));
    }
  }

  void add_identity(const model::Gpu& gpu) {
    line("uuid", gpu.uuid.empty() ? "?" : printable(gpu.uuid, 60));
    std::string place = gpu.pci ? gpu.pci->to_string() : "?";
    if (gpu.part) place += fmt::format(", part {}", *gpu.part);
    if (gpu.minor) place += fmt::format(", minor {}", *gpu.minor);
    if (gpu.cuda_index) place += fmt::format(", CUDA's own index {}", *gpu.cuda_index);
    line("pci", place);
  }

  void add_use(const model::Use& use, std::optional<std::uint64_t> total) {
    line("memory", fmt::format("{} used of {}",
                               use.memory_used_mib.known() ? format_mib(*use.memory_used_mib) : reading(use.memory_used_mib),
                               total ? format_mib(*total) : "an unknown total"));
    line("utilisation",
         fmt::format("{}, memory {}", reading(use.utilization_percent, "%"), reading(use.memory_utilization_percent, "%")));
    line("temperature", reading(use.temperature_c, " C"));
    line("power", use.power_limit_w.known()
                      ? fmt::format("{} of {}", reading(use.power_w, " W"), reading(use.power_limit_w, " W"))
                      : reading(use.power_w, " W"));
    if (!use.processes.known()) return line("processes", reading(use.processes));
    if (use.processes.known() && (*use.processes).empty()) return line("processes", "none");
    for (const model::GpuProcess& process : *use.processes) {
      std::string text = fmt::format("{} {}, {}", process.pid > 0 ? std::to_string(process.pid) : "?",
                                     process.user.empty() ? "?" : printable(process.user, 32), model::to_string(process.kind));
      if (process.memory_mib.known()) text += ", " + format_mib(*process.memory_mib);
      if (!process.command.empty()) text += ", " + printable(process.command);
      line("process", text);
    }
  }

  void add_condition(const model::Gpu& gpu) {
    std::string health = model::to_string(gpu.health);
    if (!gpu.health_reason.empty()) health += ": " + printable(gpu.health_reason);
    if (gpu.last_xid) health += fmt::format(" (last Xid {})", *gpu.last_xid);
    line("health", health);
    if (gpu.compute_mode.known()) line("compute mode", printable(*gpu.compute_mode, 30));
    if (gpu.display.known()) line("display", *gpu.display ? "drives a display: taken last" : "no");
  }

  void add_surroundings(const model::Gpu& gpu) {
    std::string near = gpu.numa ? fmt::format("NUMA node {}", *gpu.numa) : "";
    if (gpu.near_cpus.node) near += fmt::format("{}CPUs {}", near.empty() ? "" : ", ", gpu.near_cpus.node->to_string());
    line("near", near);
    line("links", links_of(gpu));
  }

  // "nvswitch x12 to GPUs 0,1; pxb to GPU 2, mlx5_2": a GPU with fast links is behind a PCIe switch, too.
  std::string links_of(const model::Gpu& gpu) const {
    struct Kind { std::string name; std::vector<std::string> gpus, others; };
    std::vector<Kind> kinds;
    for (const model::Link& link : gpu.links) {
      const std::string count = link.count ? fmt::format(" x{}", *link.count) : "";
      const std::string name = model::to_string(link.kind) + count;
      auto kind = std::ranges::find(kinds, name, &Kind::name);
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {name, {}, {}});
      if (const auto other = gpu_at(link.to)) kind->gpus.push_back(std::to_string(*other));
      else kind->others.push_back(name_of(link.to));
    }
    std::string text;
    for (const Kind& kind : kinds) {
      std::vector<std::string> ends = kind.others;
      if (!kind.gpus.empty()) ends.insert(ends.begin(), (kind.gpus.size() == 1 ? "GPU " : "GPUs ") + join(kind.gpus, ","));
      text += fmt::format("{}{} to {}", text.empty() ? "" : "; ", kind.name, join(ends, ", "));
    }
    return text;
  }

  void add_instance(const UnitOverview& unit, const model::Instance& instance) {
    text_ += ink(screen_, Ink::bold, fmt::format("  {}  {}", unit.unit.label, printable(instance.profile, 30))) + "\n";
    add_claims(unit);
    line("uuid", printable(instance.uuid, 60));
    add_use(instance.use, instance.memory_mib);
  }

  // Links name PCI addresses; people know GPUs by index and NICs by name.
  std::optional<std::size_t> gpu_at(const model::PciAddress& address) const {
    const auto& gpus = overview_.snapshot.machine.gpus;
    const auto found = std::ranges::find(gpus, std::optional(address), &model::Gpu::pci);
    return found == gpus.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - gpus.begin()));
  }

  std::string name_of(const model::PciAddress& address) const {
    for (const model::Nic& nic : overview_.snapshot.machine.nics)
      if (nic.pci == address) return printable(nic.name, 20);
    return address.to_string();
  }

  template <class T>
  static std::string reading(const model::Metric<T>& metric, std::string_view unit = {}) {
    using S = typename model::Metric<T>::State;
    if constexpr (std::is_same_v<T, double>)
      if (metric.known()) return fmt::format("{:.0f}{}", *metric, unit);
    if (metric.state() == S::unsupported) return "not supported";
    return metric.why().empty() ? "not known" : "not known (" + printable(metric.why(), 120) + ")";
  }

  const app::Overview& overview_;
  const app::NamedGpus& named_;
  const Screen& screen_;
  std::string text_;
};

}  // namespace

std::string render_gpus(const app::Overview& overview, const app::NamedGpus& named, const Screen& screen) {
  std::string text;
  for (std::size_t gpu : named.gpus) text += (text.empty() ? "" : "\n") + Sheet(overview, named, screen).of(gpu);
  return text;
}

std::string render_list(const app::Overview& overview) {
  const model::Machine& machine = overview.snapshot.machine;
  std::string text;
  const auto add = [&](std::string_view label, const std::string& uuid, const std::string& name) {
    text += fmt::format("{}\t{}\t{}\n", label, uuid.empty() ? "?" : printable(uuid), name.empty() ? "?" : printable(name));
  };
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    const model::Gpu& gpu = machine.gpus[g];
    add(std::to_string(g), gpu.uuid, gpu.model);
    for (const UnitOverview& row : overview.units)
      if (row.unit.gpu == g && row.unit.instance)
        add(row.unit.label, gpu.mig[*row.unit.instance].uuid, row.unit.model_of(machine));
  }
  return text;
}

}  // namespace thole::cli
