#include "host/gpu/nvidia/translate.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "host/gpu/nvidia/health.hpp"
#include "host/gpu/nvidia/instances.hpp"

namespace thole::host::nvidia {
namespace {

using model::GpuProcess;
using model::Metric;

std::uint64_t to_mib(std::uint64_t bytes) { return bytes >> 20; }

template <class To, class From, class Convert>
Metric<To> metric(const Answer<From>& answer, Convert convert) {
  if (answer) return Metric<To>(convert(answer.value));
  if (answer.rc == abi::not_asked) return {};
  if (means_unsupported(answer.rc)) return Metric<To>::unsupported();
  return Metric<To>::failed(describe(answer.rc));
}

Metric<std::uint64_t> free_mib(const Answer<RawMemory>& memory) {
  if (memory && memory.value.total == 0) return Metric<std::uint64_t>::unsupported();
  return metric<std::uint64_t>(memory, [](const RawMemory& m) { return to_mib(m.free); });
}

Metric<double> percent(const Answer<std::array<std::uint32_t, 2>>& utilization, std::size_t which) {
  if (utilization && utilization.value[which] > 100) return Metric<double>::failed("out of range");
  return metric<double>(utilization, [&](const auto& pair) { return double(pair[which]); });
}

// A figure that no GPU has is a driver's way to say that it does not know.
constexpr std::int64_t hottest = 200, coldest = 0;  // the older call has no number below 0; -1 is none
constexpr double strongest_w = 20'000;

Metric<double> celsius(const Answer<std::int64_t>& degrees) {
  if (degrees && (degrees.value > hottest || degrees.value < coldest)) return Metric<double>::failed("out of range");
  return metric<double>(degrees, [](std::int64_t c) { return double(c); });
}

Metric<double> watts(const Answer<std::uint32_t>& milliwatts) {
  if (milliwatts && milliwatts.value / 1000.0 > strongest_w) return Metric<double>::failed("out of range");
  return metric<double>(milliwatts, [](std::uint32_t mw) { return mw / 1000.0; });
}

Metric<std::string> compute_mode(const Answer<std::int64_t>& mode) {
  return metric<std::string>(mode, [](std::int64_t m) -> std::string {
    switch (m) {
      case abi::mode_default: return "default";
      case abi::mode_exclusive_thread: return "exclusive-thread";
      case abi::mode_prohibited: return "prohibited";
      case abi::mode_exclusive_process: return "exclusive-process";
      default: return "mode " + std::to_string(m);
    }
  });
}

GpuProcess to_process(const RawProcess& raw, GpuProcess::Kind kind) {
  GpuProcess process;
  process.pid = raw.pid <= largest_pid ? static_cast<pid_t>(raw.pid) : 0;  // 0: a process whose number is not known
  process.kind = kind;
  process.memory_mib = raw.used_memory == abi::not_available ? Metric<std::uint64_t>::unsupported()
                                                             : Metric<std::uint64_t>(to_mib(raw.used_memory));
  return process;
}

// The same process on two lists: the memory is the same memory, told twice.
void join(GpuProcess& known, const GpuProcess& again) {
  using Kind = GpuProcess::Kind;
  bool compute_and_graphics = (known.kind == Kind::compute && again.kind == Kind::graphics) ||
                              (known.kind == Kind::graphics && again.kind == Kind::compute);
  if (known.kind == Kind::mps || again.kind == Kind::mps) known.kind = Kind::mps;
  else if (compute_and_graphics) known.kind = Kind::both;
  if (again.memory_mib) known.memory_mib = std::max(known.memory_mib.value_or(0), *again.memory_mib);
}

model::CpuSet to_cpus(const std::vector<std::uint64_t>& words) {
  model::CpuSet cpus;
  for (std::size_t w = 0; w < words.size(); ++w)
    for (unsigned bit = 0; bit < 64; ++bit)
      if (words[w] >> bit & 1) cpus.add(static_cast<unsigned>(w * 64 + bit));
  return cpus;
}

std::optional<model::Link> nvlink_between(const RawIdentity& a, const RawIdentity& b) {
  auto to = model::PciAddress::parse(b.pci.value);
  if (!a.pci || !b.pci || !to) return std::nullopt;
  model::Link link;
  link.to = *to;
  link.kind = model::LinkKind::nvlink;
  auto ends_there = [&](const RawLink& l) { return model::PciAddress::parse(l.remote) == to; };
  auto direct = std::count_if(a.links.value.begin(), a.links.value.end(), ends_there);
  if (direct > 0) {
    link.count = static_cast<int>(direct);
    return link;
  }
  if (a.nvswitch_links.value > 0 && b.nvswitch_links.value > 0) {
    link.kind = model::LinkKind::nvswitch;
    link.count = static_cast<int>(std::min(a.nvswitch_links.value, b.nvswitch_links.value));
    return link;
  }
  auto works = [](const RawIdentity& from, std::uint32_t other) {
    return std::any_of(from.peers.begin(), from.peers.end(), [&](const RawPeer& p) {
      return p.gpu == other && p.rc == abi::ok && p.status == abi::p2p_status_ok;
    });
  };
  // Links whose other ends are known and are not each other's: joined to third GPUs only.
  auto known_end = [](const RawLink& l) {
    return l.remote_type == abi::remote_gpu && model::PciAddress::parse(l.remote).has_value();
  };
  bool all_known = !a.links.value.empty() && std::all_of(a.links.value.begin(), a.links.value.end(), known_end);
  if (!all_known && (works(a, b.index) || works(b, a.index))) return link;
  return std::nullopt;
}

// Asked, and not answered by a yes or a no.
bool is_untold(abi::Return rc) {
  return rc != abi::ok && rc != abi::not_asked && rc != abi::not_supported && rc != abi::absent;
}

}  // namespace

void RawReading::add(std::string_view line) {
  Record record;
  try {
    record = parse_line(line);
  } catch (const std::exception&) {
    ++garbage;
    return;
  }
  switch (record.kind) {
    case RecordKind::driver: driver = std::move(record.driver); break;
    case RecordKind::begin: in_progress.insert(record.begin); break;
    case RecordKind::identity:
      in_progress.erase(record.identity.index);
      identities[record.identity.index] = std::move(record.identity);
      break;
    case RecordKind::use:
      in_progress.erase(record.use.index);
      uses[record.use.index] = std::move(record.use);
      break;
    case RecordKind::unlisted: unlisted.push_back(std::move(record.unlisted)); break;
    case RecordKind::accounts: accounts.push_back(std::move(record.accounts)); break;
  }
}

bool RawReading::has(std::uint32_t index) const {
  auto identity = identities.find(index);
  return identity != identities.end() && (identity->second.handle != abi::ok || uses.count(index));
}

Metric<std::uint64_t> used_mib(const Answer<RawMemory>& memory) {
  if (memory && memory.value.total == 0) return Metric<std::uint64_t>::unsupported();
  return metric<std::uint64_t>(memory, [](const RawMemory& m) {
    if (!m.v2) return to_mib(m.used);
    std::uint64_t not_used = m.free + m.reserved;
    return m.total > not_used ? to_mib(m.total - not_used) : 0;
  });
}

void apply(model::Gpu& gpu, const RawIdentity& raw) {
  if (raw.pci)
    if (auto pci = model::PciAddress::parse(raw.pci.value)) gpu.pci = pci;
  if (raw.uuid && !raw.uuid.value.empty()) gpu.uuid = raw.uuid.value;
  if (raw.name && !raw.name.value.empty()) gpu.model = raw.name.value;
  if (raw.serial) gpu.serial = raw.serial.value;
  if (raw.minor) gpu.minor = static_cast<int>(raw.minor.value);
  if (raw.cpus_node && !gpu.near_cpus.node) gpu.near_cpus.node = to_cpus(raw.cpus_node.value);
  if (raw.cpus_package && !gpu.near_cpus.package) gpu.near_cpus.package = to_cpus(raw.cpus_package.value);
  if (raw.handle == abi::ok) return;
  judge(gpu, raw.handle);
  std::string reason = describe(raw.handle);
  if (raw.handle == abi::no_permission) reason += " to use it: ask the administrator, or check the job's device limits";
  find_ill(gpu, model::Health::unreadable, reason);
}

void apply(model::Gpu& gpu, const RawUse& raw) {
  bool has_memory = raw.memory && raw.memory.value.total > 0;
  if (has_memory) gpu.memory_mib = to_mib(raw.memory.value.total);
  if (!is_untold(raw.mig_mode.rc)) gpu.mig_mode = raw.mig_mode && raw.mig_mode.value == 1;
  // No memory of its own (GB10, Jetson): what is in use is the host's, and says nothing about who computes.
  bool none_of_its_own = (raw.memory && raw.memory.value.total == 0) || raw.memory.rc == abi::not_supported;
  if (none_of_its_own && !gpu.mig_mode) gpu.coherent = true;
  gpu.use.memory_used_mib = used_mib(raw.memory);
  gpu.use.memory_free_mib = free_mib(raw.memory);
  gpu.use.utilization_percent = percent(raw.utilization, 0);
  gpu.use.memory_utilization_percent = percent(raw.utilization, 1);
  gpu.use.temperature_c = celsius(raw.temperature_c);
  gpu.use.power_w = watts(raw.power_mw);
  gpu.use.power_limit_w = watts(raw.power_limit_mw);
  gpu.use.processes = merge_processes(raw.compute, raw.graphics, raw.mps);
  gpu.compute_mode = compute_mode(raw.compute_mode);
  gpu.display = metric<bool>(raw.display_active, [](std::int64_t active) { return active != 0; });
  gpu.monitor = metric<bool>(raw.display_mode, [](std::int64_t connected) { return connected != 0; });
  add_instances(gpu, raw);
  if (gpu.mig_mode) sum_instances(gpu, raw);
  judge_use(gpu, raw);
  if (is_untold(raw.mig_mode.rc))
    find_ill(gpu, model::Health::unreadable, "whether it is partitioned cannot be told: " + describe(raw.mig_mode.rc));
  if (is_untold(raw.instances_told.rc))
    find_ill(gpu, model::Health::unreadable, "not all of its instances can be told: " + describe(raw.instances_told.rc));
}

Metric<std::vector<GpuProcess>> merge_processes(const RawProcesses& compute, const RawProcesses& graphics,
                                                const RawProcesses& mps) {
  std::vector<GpuProcess> merged;
  auto add = [&](const RawProcesses& list, GpuProcess::Kind kind) {
    for (const RawProcess& raw : list.value) {
      if (raw.pid == 0) continue;
      GpuProcess process = to_process(raw, kind);
      const auto same = [&](const GpuProcess& p) { return p.pid != 0 && p.pid == process.pid; };
      auto known = std::find_if(merged.begin(), merged.end(), same);
      if (known == merged.end()) merged.push_back(process);
      else join(*known, process);
    }
  };
  add(compute, GpuProcess::Kind::compute);
  add(graphics, GpuProcess::Kind::graphics);
  add(mps, GpuProcess::Kind::mps);
  // Without the compute list nothing can be said about being idle, whatever the other lists hold.
  return metric<std::vector<GpuProcess>>(compute, [&](const auto&) { return merged; });
}

std::map<std::uint32_t, std::vector<model::Link>> nvlinks(const std::map<std::uint32_t, RawIdentity>& gpus) {
  std::map<std::uint32_t, std::vector<model::Link>> found;
  for (const auto& [i, a] : gpus)
    for (const auto& [j, b] : gpus)
      if (i != j)
        if (auto link = nvlink_between(a, b)) found[i].push_back(*link);
  return found;
}

}  // namespace thole::host::nvidia
