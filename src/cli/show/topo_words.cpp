// What the drawings of a machine say about its parts.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/show/render.hpp"
#include "cli/show/topo.hpp"

namespace thole::cli {

namespace {

// "128 cores (256 threads)"; "256 CPUs" where the cores are not told.
std::string processors_in(const model::Machine& machine) {
  std::set<int> cores;
  for (const model::Cpu& cpu : machine.cpus) {
    if (!cpu.core) return plural(machine.cpus.size(), "CPU");
    cores.insert(*cpu.core);
  }
  return plural(cores.size(), "core") +
         (machine.cpus.size() > cores.size() ? fmt::format(" ({} threads)", machine.cpus.size()) : "");
}

// As taskset -c takes it: "0-3,16-19", and "0-38:2" where every second CPU is meant.
std::string list_of(const model::CpuSet& cpus) {
  const std::vector<unsigned> ids = cpus.to_vector();
  if (ids.size() < 3 || ids[1] - ids[0] < 2) return cpus.to_string();
  for (std::size_t i = 2; i < ids.size(); ++i)
    if (ids[i] - ids[i - 1] != ids[1] - ids[0]) return cpus.to_string();
  return fmt::format("{}-{}:{}", ids.front(), ids.back(), ids[1] - ids[0]);
}

std::string memory_in(const model::Machine& machine) {
  std::uint64_t sum = 0;
  for (const model::NumaNode& node : machine.numa) {
    if (!node.memory_mib) return "";  // a sum without it would be wrong
    sum += *node.memory_mib;
  }
  return sum == 0 ? "" : size_of(sum);
}

}  // namespace

std::string title_of(const app::Overview& overview) {
  const std::string name = printable(overview.snapshot.machine.name, 60);
  if (overview.snapshot.simulated) return name.empty() ? "simulated machine" : name + ", simulated machine";
  return name.empty() ? "this machine" : name;
}

std::string summary_of(const model::Machine& machine) {
  std::vector<std::string> parts;
  std::set<int> packages, nodes;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.package) packages.insert(*cpu.package);
  for (const model::NumaNode& node : machine.numa) nodes.insert(node.id);
  if (!packages.empty()) parts.push_back(plural(packages.size(), "package"));
  if (!nodes.empty()) parts.push_back(plural(nodes.size(), "NUMA node"));
  if (!machine.cpus.empty()) parts.push_back(processors_in(machine));
  if (const std::string memory = memory_in(machine); !memory.empty()) parts.push_back(memory);
  parts.push_back(machine.gpus.empty() ? "no GPU" : plural(machine.gpus.size(), "GPU"));
  if (!machine.nics.empty()) parts.push_back(plural(machine.nics.size(), "NIC"));
  return join(parts, ", ");
}

std::string holders_of(const app::UnitOverview& unit) {
  using app::State;
  std::string names;
  for (const model::Holding& holding : unit.holdings)
    names += (names.empty() ? "" : ", ") + (unit.mine && unit.holdings.size() == 1 ? "you" : holder_name(holding));
  switch (unit.state) {
    case State::idle: return "free";
    case State::claimed:
    case State::shared: return names;
    case State::overdue: return names + ", overdue";
    case State::sick: return names.empty() ? "SICK" : "SICK, " + names;
    case State::unknown: return "unknown";
    case State::foreign: break;
  }
  std::set<std::string> users;
  for (const model::GpuProcess& process : unit.strangers)
    users.insert(process.user.empty() ? "?" : printable(process.user, 32));
  for (const std::string& user : users) names += (names.empty() ? "" : ", ") + user;
  return names.empty() ? "in use, no claim" : names + ", no claim";
}

// "H100 80GB HBM3" -> "H100 HBM3", "A100-SXM4-80GB" -> "A100-SXM4"
std::string without_memory(std::string name) {
  const std::size_t unit = name.find("GB");
  const std::size_t before = unit == std::string::npos ? unit : name.find_last_not_of("0123456789", unit - 1);
  if (unit == std::string::npos || before == std::string::npos || before + 1 == unit) return name;
  if (name[before] == ' ' || name[before] == '-') name.erase(before, unit + 2 - before);
  return name;
}

std::string gpu_name(const model::Gpu& gpu, bool brief) {
  std::string name = printable(short_model(gpu.model), 40);
  if (name.empty()) return "?";
  if (gpu.memory_mib) name = without_memory(std::move(name));   // it stands beside
  return brief ? brief_model(name) : name;
}

std::string size_of(std::uint64_t mib) {
  const double gib = static_cast<double>(mib) / 1024;
  if (gib < 10) return fmt::format("{:.1f}G", gib);
  return gib < 10000 ? fmt::format("{:.0f}G", gib) : fmt::format("{:.1f}T", gib / 1024);
}

std::string rate_of(const model::Nic& nic) { return nic.rate_gbps ? fmt::format("{:g} Gb/s", *nic.rate_gbps) : ""; }

std::string node_name(const app::Place& place) {
  return place.numa ? fmt::format("NUMA {}", *place.numa) : "NUMA node unknown";
}

std::string heading_of(const app::Place& place, const app::Arrangement& chart, const model::Machine& machine) {
  std::string text = node_name(place);
  if (place.memory_mib) text += " · " + size_of(*place.memory_mib);
  if (place.numa && std::find(chart.split.begin(), chart.split.end(), *place.numa) != chart.split.end())
    text += place.groups.empty() ? " · shared by packages" : " · shared";
  else if (place.groups.empty() && place.memory_mib && !machine.cpus.empty())
    text += " · no CPUs";
  return text;
}

std::string cores_of(const app::Place& place) {
  const std::vector<model::CpuSet> cores = place.cores();
  std::vector<std::string> parts;  // one for each number of threads: hybrid CPUs have two
  std::set<std::size_t, std::greater<>> widths;
  for (const model::CpuSet& core : cores) widths.insert(core.size());
  for (const std::size_t width : widths) {
    std::size_t number = 0;
    bool together = true;  // threads of a core have neighbouring numbers
    model::CpuSet all, first;
    for (const model::CpuSet& core : cores) {
      if (core.size() != width) continue;
      ++number;
      all = all | core;
      const std::vector<unsigned> threads = core.to_vector();
      first.add(threads.front());
      together = together && threads.back() - threads.front() == width - 1;
    }
    std::string text = (place.cores_told ? plural(number, "core") : plural(number, "CPU")) + " ";
    if (width == 1) text += list_of(all);
    else if (together) text += fmt::format("{} ({} threads each)", list_of(all), width);
    else text += fmt::format("{} (SMT {})", list_of(first), list_of(all - first));
    parts.push_back(std::move(text));
  }
  return join(parts, ", ");
}

}  // namespace thole::cli
