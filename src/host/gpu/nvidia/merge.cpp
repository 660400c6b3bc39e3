#include "host/gpu/nvidia/merge.hpp"

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "host/gpu/nvidia/health.hpp"

namespace thole::host::nvidia {
namespace {

using End = ProbeOutcome::End;
using model::Gpu;
using model::Health;

Gpu from_files(const FileGpu& file, bool loaded) {
  Gpu gpu;
  gpu.vendor = model::Vendor::nvidia;
  gpu.pci = file.pci;
  gpu.uuid = file.information.uuid;
  gpu.model = file.information.model;
  gpu.minor = file.information.minor;
  gpu.coherent = file.coherent;
  gpu.memory_numa = file.memory_numa;
  gpu.mig_mode = !file.instances.empty();
  if (loaded) return gpu;
  gpu.health = Health::unreadable;
  bool other_driver = !file.bound_to.empty() && file.bound_to != "nvidia";
  gpu.health_reason = other_driver ? fmt::format("it is bound to the kernel driver {}, not to NVIDIA's", file.bound_to)
                                   : "NVIDIA's kernel module is not loaded";
  return gpu;
}

Gpu* find(std::vector<Gpu>& gpus, const RawIdentity& raw) {
  auto pci = model::PciAddress::parse(raw.pci.value);
  for (Gpu& gpu : gpus)
    if (raw.pci && pci && gpu.pci == pci) return &gpu;
  for (Gpu& gpu : gpus)
    if (raw.uuid && !raw.uuid.value.empty() && gpu.uuid == raw.uuid.value) return &gpu;
  return nullptr;
}

// A GPU whose handle was refused has no address. The library counts in PCI order, so position tells it if the counts agree.
Gpu* find_by_position(std::vector<Gpu>& gpus, const Observed& o, std::uint32_t index) {
  bool counts_agree = o.nvml.driver && o.nvml.driver->count && o.nvml.driver->count.value == o.files.gpus.size();
  if (!counts_agree || index >= o.files.gpus.size()) return nullptr;
  for (Gpu& gpu : gpus)
    if (gpu.pci == o.files.gpus[index].pci) return &gpu;
  return nullptr;
}

void set_health(Gpu& gpu, Health health, const std::string& reason) {
  gpu.health = health;
  gpu.health_reason = reason;
}

// Health and reason of a GPU about which the library has not said everything.
void mark_unanswered(Gpu& gpu, const ProbeOutcome& outcome, WallTime now) {
  std::string since = outcome.stuck_since ? " since " + format_local(*outcome.stuck_since, now) : " in time";
  switch (outcome.end) {
    case End::complete: return;
    case End::timed_out:
    case End::occupied: return set_health(gpu, Health::hung, "the driver has not answered about it" + since);
    case End::crashed:
      return set_health(gpu, Health::unreadable, "the driver's library ended before it was read: " + outcome.detail);
    case End::not_started:
      return set_health(gpu, Health::unreadable, "the driver's library could not be asked: " + outcome.detail);
  }
}

// The use as it was last seen, so that people see more than dashes. The health stays what it is:
// nothing is decided by old data.
void show_earlier(Gpu& gpu, const RawReading& earlier) {
  for (const auto& [index, identity] : earlier.identities) {
    if (!identity.pci || model::PciAddress::parse(identity.pci.value) != gpu.pci) continue;
    auto use = earlier.uses.find(index);
    if (use == earlier.uses.end()) return;
    Health health = gpu.health;
    std::string reason = gpu.health_reason;
    apply(gpu, identity);
    apply(gpu, use->second);
    set_health(gpu, health, reason);
  }
}

// The library answered and did not list it. True: it is not for us, leave it out.
bool kept_from_us(Gpu& gpu, const Observed& o) {
  for (const RawUnlisted& unlisted : o.nvml.unlisted) {
    if (model::PciAddress::parse(unlisted.pci) != gpu.pci) continue;
    bool others_listed = !o.nvml.identities.empty();
    if (unlisted.open_errno == EPERM || (unlisted.open_errno == ENOENT && others_listed)) return true;
    if (unlisted.open_errno == ENOENT || unlisted.open_errno == EACCES)
      set_health(gpu, Health::unreadable,
                 unlisted.open_errno == ENOENT ? "its device node is missing: sudo nvidia-modprobe -u -c=0"
                                               : "no permission to open its device node: join the group that owns it");
    else
      set_health(gpu, Health::lost, "the driver no longer lists it: it has fallen off the bus or failed to start; see dmesg");
    return false;
  }
  return false;
}

std::string problem_of(const Observed& o, const std::vector<Gpu>& gpus) {
  if (!o.asked) return "NVIDIA's kernel module is not loaded: install the driver, or sudo modprobe nvidia";
  auto unanswered = std::count_if(gpus.begin(), gpus.end(), [](const Gpu& g) { return g.health == Health::hung; });
  bool all = gpus.empty() || unanswered == static_cast<long>(gpus.size());
  std::string who = "the NVIDIA driver has not answered";
  if (!all) who += fmt::format(" about {} of {} GPUs", unanswered, gpus.size());
  std::string since = o.outcome.stuck_since ? " since " + format_local(*o.outcome.stuck_since, o.now) : " in time";
  switch (o.outcome.end) {
    case End::timed_out:
    case End::occupied:
      return fmt::format("{}{} ({}): look at dmesg for NVRM and Xid lines; a reboot mends it", who, since, o.outcome.detail);
    case End::crashed:
      return fmt::format("the driver's library crashed or left ({}): reinstall the driver if it stays so", o.outcome.detail);
    case End::not_started: return fmt::format("the driver's library could not be asked: {}", o.outcome.detail);
    case End::complete: break;
  }
  if (o.nvml.garbage > 0)
    return fmt::format("the probe sent {} unreadable records; what they were about is missing", o.nvml.garbage);
  if (!o.nvml.driver) return "the probe answered without a word about the driver";
  return {};
}

}  // namespace

port::Reading merge(const Observed& o) {
  port::Reading reading;
  std::vector<Gpu>& gpus = reading.gpus;
  for (const FileGpu& file : o.files.gpus) gpus.push_back(from_files(file, o.files.loaded || o.asked));
  auto broken = o.nvml.driver ? trouble(*o.nvml.driver) : std::nullopt;

  auto links = nvlinks(o.nvml.identities);
  std::vector<std::optional<model::PciAddress>> read;      // addresses of what the library told us about
  for (const auto& [index, identity] : o.nvml.identities) {
    Gpu* gpu = find(gpus, identity);
    if (!gpu) gpu = find_by_position(gpus, o, index);
    if (!gpu) {
      gpu = &gpus.emplace_back();
      gpu->vendor = model::Vendor::nvidia;
    }
    apply(*gpu, identity);
    if (auto use = o.nvml.uses.find(index); use != o.nvml.uses.end()) {
      apply(*gpu, use->second);
      judge_fabric(*gpu, identity, use->second);
      gpu->remarks = remarks(identity, use->second);
    } else if (identity.handle == abi::ok) {
      mark_unanswered(*gpu, o.outcome, o.now);
    }
    gpu->links = links[index];
    if (const auto logged = gpu->pci ? o.logged.find(*gpu->pci) : o.logged.end(); logged != o.logged.end()) {
      const auto use = o.nvml.uses.find(index);
      judge_log(*gpu, logged->second, use == o.nvml.uses.end() ? nullptr : &use->second);
    }
    if (gpu->coherent && !gpu->memory_mib) gpu->memory_mib = o.host_memory_mib;
    read.push_back(gpu->pci);
  }

  bool stale = false;
  std::erase_if(gpus, [&](Gpu& gpu) {
    if (std::find(read.begin(), read.end(), gpu.pci) == read.end() && o.asked) {
      if (broken) set_health(gpu, broken->health, broken->sentence);
      else if (o.outcome.end == End::complete && kept_from_us(gpu, o)) return true;
      else mark_unanswered(gpu, o.outcome, o.now);
      if (gpu.health == Health::ok) set_health(gpu, Health::unreadable, "the driver said nothing about it");
      if (const auto logged = gpu.pci ? o.logged.find(*gpu.pci) : o.logged.end(); logged != o.logged.end())
        judge_log(gpu, logged->second, nullptr);
    }
    if (o.earlier && !gpu.use.processes && !gpu.use.memory_used_mib && o.outcome.end != End::complete) {
      show_earlier(gpu, *o.earlier);
      stale = true;
    }
    return false;
  });
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });

  model::Observation& observation = reading.observation;
  observation.backend = "nvidia";
  bool talked = o.nvml.driver && o.nvml.driver->init == abi::ok;
  std::string version = talked && o.nvml.driver->driver ? o.nvml.driver->driver.value : o.files.version;
  for (Gpu& gpu : gpus) gpu.driver = version;
  observation.source = trim(fmt::format("{} {}", talked ? "nvml" : "procfs", version));
  observation.problem = broken ? broken->sentence : problem_of(o, gpus);
  observation.answered = talked || o.outcome.end == End::complete;
  observation.pids_foreign = o.pids_foreign;
  if (stale && o.nvml.uses.empty()) observation.age = o.earlier_age;  // else only what is marked as not answering is old
  return reading;
}

}  // namespace thole::host::nvidia
