#include "host/gpu/nvidia/health.hpp"

#include "base/text.hpp"
#include "host/gpu/nvidia/translate.hpp"

namespace thole::host::nvidia {
namespace {

using model::Gpu;
using model::Health;

constexpr int off_the_bus = 79;

std::string name_of(const Gpu& gpu) { return gpu.pci ? gpu.pci->to_string() : "ID"; }

std::string reset_of(const Gpu& gpu) { return "sudo nvidia-smi --gpu-reset -i " + name_of(gpu); }

const char* fabric_words(const RawFabric& fabric) {
  return fabric.state == abi::fabric_not_started ? "not begun" : "not ended";
}

// "" when CUDA can start.
std::string fabric_trouble(const Answer<RawFabric>& fabric) {
  if (!fabric || fabric.value.state == abi::fabric_not_supported) return "";
  if (fabric.value.state == abi::fabric_completed && fabric.value.status == abi::ok) return "";
  if (fabric.value.state == abi::fabric_completed)
    return fmt::format("joining it to the other GPUs over NVSwitch failed ({})", describe(fabric.value.status));
  return fmt::format("joining it to the other GPUs over NVSwitch has {}", fabric_words(fabric.value));
}

constexpr const char* fabric_fix = "CUDA does not start (error 802): systemctl status nvidia-fabricmanager";

}  // namespace

void find_ill(Gpu& gpu, Health health, std::string reason) {
  if (gpu.health != Health::ok) return;
  gpu.health = health;
  gpu.health_reason = std::move(reason);
}

std::string describe_recovery(std::uint64_t action, const Gpu& gpu) {
  switch (action) {
    case abi::recover_reset: return "the driver asks for a reset: " + reset_of(gpu);
    case abi::recover_reboot: return "the driver asks for a reboot of this node: sudo reboot";
    case abi::recover_drain_p2p:
      return "the driver asks to end all programs that use it together with other GPUs (NVLink, peer to peer)";
    case abi::recover_drain_and_reset:
      return "the driver wants no new work on it and a reset when its programs have ended: " + reset_of(gpu);
    case abi::recover_imex_domain: return "the driver asks to recover its IMEX domain: systemctl status nvidia-imex";
    case abi::recover_bus_reset: return "the driver asks for a reset of its bus, such as a reboot does: sudo reboot";
    case abi::recover_system_reboot: return "the driver asks for a reboot of the whole system, all its nodes";
    default: return fmt::format("the driver asks for recovery action {}, unknown to this thole: see nvidia-smi -q", action);
  }
}

void judge(Gpu& gpu, abi::Return rc) {
  if (rc == abi::gpu_is_lost) find_ill(gpu, Health::lost, "it has fallen off the bus: reboot the machine");
  else if (rc == abi::unknown)
    find_ill(gpu, Health::lost, "the driver cannot reach it (an unknown error): see dmesg; a reboot mends most of these");
  else if (rc == abi::reset_required)
    find_ill(gpu, Health::reset_required, describe_recovery(abi::recover_reset, gpu));
  else if (rc == abi::lib_rm_version_mismatch)
    find_ill(gpu, Health::driver_mismatch, "the driver was upgraded: reboot, or reload its kernel modules");
}

void judge_use(Gpu& gpu, const RawUse& raw) {
  for (abi::Return rc : {raw.memory.rc, raw.utilization.rc, raw.temperature_c.rc, raw.compute.rc, raw.compute_mode.rc})
    if (rc != abi::unknown) judge(gpu, rc);                // 999 from a getter is some other trouble
  if (raw.recovery_action && raw.recovery_action.value != abi::recover_nothing)
    find_ill(gpu, Health::reset_required, describe_recovery(raw.recovery_action.value, gpu));
  for (std::uint64_t xid : raw.xids) {
    gpu.last_xid = static_cast<int>(xid);
    if (xid == off_the_bus) judge(gpu, abi::gpu_is_lost);
    else if (is_fatal_xid(xid))
      find_ill(gpu, Health::reset_required, fmt::format("the driver reported Xid {}: {}", xid, reset_of(gpu)));
  }
}

void judge_fabric(Gpu& gpu, const RawIdentity& identity, const RawUse& use) {
  if (!identity.nvswitch_links || identity.nvswitch_links.value == 0) return;
  if (const std::string trouble = fabric_trouble(use.fabric); !trouble.empty())
    find_ill(gpu, Health::reset_required, trouble + ", so that " + fabric_fix);
}

void judge_log(Gpu& gpu, const LoggedXids& logged, const RawUse* use) {
  if (!gpu.last_xid) gpu.last_xid = logged.last;
  if (!logged.fatal || gpu.health != Health::ok || (use && use->recovery_action && use->recovery_action.value == 0)) return;
  if (*logged.fatal == off_the_bus) {
    if (!use || !use->memory)
      find_ill(gpu, Health::lost, "the kernel's log has Xid 79: it has fallen off the bus: reboot the machine");
    return;
  }
  const std::string wanted = logged.action ? describe_recovery(*logged.action, gpu) : reset_of(gpu);
  find_ill(gpu, Health::reset_required, fmt::format("the kernel's log has Xid {}: {}", *logged.fatal, wanted));
}

std::vector<std::string> remarks(const RawIdentity& identity, const RawUse& use) {
  std::vector<std::string> said;
  if (use.clock_reasons.rc == abi::not_asked) return said;
  const std::string reset = "sudo nvidia-smi --gpu-reset -i " + identity.pci.value;
  const bool joined = identity.nvswitch_links && identity.nvswitch_links.value > 0;  // else it is sick
  if (const std::string trouble = fabric_trouble(use.fabric); !trouble.empty() && !joined)
    said.push_back(trouble + "; if " + fabric_fix);
  if (use.remap_pending.value != 0)
    said.push_back("rows of its memory will be replaced by spare ones at its next reset: " + reset);
  if (use.remap_failed.value != 0)
    said.push_back("a row of its memory could not be replaced, no spare ones are left: nvidia-smi -q -d ROW_REMAPPER");
  const std::uint64_t bits = use.clock_reasons.value;
  if (bits & (abi::slowed_by_heat | abi::slowed_by_hardware_heat)) said.push_back("it is slowed down because it is too hot");
  else if (bits & abi::slowed_by_power_brake) said.push_back("it is slowed down by the power brake: too little power comes");
  else if (bits & abi::slowed_by_hardware) said.push_back("it is slowed down by its hardware, for heat or power");
  return said;
}

}  // namespace thole::host::nvidia
