#include "host/gpu/nvidia/library.hpp"

#include <dlfcn.h>

#include <array>
#include <initializer_list>

namespace thole::host::nvidia {
namespace {

constexpr std::array default_names{"libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};

template <class Function>
void bind(void* library, Function*& slot, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    slot = reinterpret_cast<Function*>(::dlsym(library, name));
    if (slot) return;
  }
}

// Suffixes are asked from the newest down; the unsuffixed C name is the oldest interface.
void bind(void* library, Versioned<Functions::ProcessList>& slot, const std::string& name) {
  for (int version = 3; version >= 1; --version) {
    std::string suffixed = version == 1 ? name : name + "_v" + std::to_string(version);
    slot.call = reinterpret_cast<Functions::ProcessList*>(::dlsym(library, suffixed.c_str()));
    slot.version = version;
    if (slot.call) return;
  }
  slot.version = 0;
}

Functions bind_all(void* so) {
  Functions f;
  bind(so, f.init, {"nvmlInit_v2", "nvmlInit"});
  bind(so, f.driver_version, {"nvmlSystemGetDriverVersion"});
  bind(so, f.nvml_version, {"nvmlSystemGetNVMLVersion"});
  bind(so, f.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  bind(so, f.handle_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  bind(so, f.handle_by_pci, {"nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId"});
  bind(so, f.handle_by_uuid, {"nvmlDeviceGetHandleByUUID"});
  bind(so, f.uuid, {"nvmlDeviceGetUUID"});
  bind(so, f.name, {"nvmlDeviceGetName"});
  bind(so, f.serial, {"nvmlDeviceGetSerial"});
  bind(so, f.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"});
  bind(so, f.minor, {"nvmlDeviceGetMinorNumber"});
  bind(so, f.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  bind(so, f.memory, {"nvmlDeviceGetMemoryInfo"});
  bind(so, f.utilization, {"nvmlDeviceGetUtilizationRates"});
  bind(so, f.temperature_v, {"nvmlDeviceGetTemperatureV"});
  bind(so, f.temperature, {"nvmlDeviceGetTemperature"});
  bind(so, f.power, {"nvmlDeviceGetPowerUsage"});
  bind(so, f.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  bind(so, f.compute_mode, {"nvmlDeviceGetComputeMode"});
  bind(so, f.display_active, {"nvmlDeviceGetDisplayActive"});
  bind(so, f.display_mode, {"nvmlDeviceGetDisplayMode"});
  bind(so, f.fields, {"nvmlDeviceGetFieldValues"});
  bind(so, f.clock_reasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  bind(so, f.fabric, {"nvmlDeviceGetGpuFabricInfoV"});
  bind(so, f.compute_processes, "nvmlDeviceGetComputeRunningProcesses");
  bind(so, f.graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses");
  bind(so, f.mps_processes, "nvmlDeviceGetMPSComputeRunningProcesses");
  bind(so, f.accounting_mode, {"nvmlDeviceGetAccountingMode"});
  bind(so, f.accounting_pids, {"nvmlDeviceGetAccountingPids"});
  bind(so, f.accounting_stats, {"nvmlDeviceGetAccountingStats"});
  bind(so, f.mig_mode, {"nvmlDeviceGetMigMode"});
  bind(so, f.max_mig_devices, {"nvmlDeviceGetMaxMigDeviceCount"});
  bind(so, f.mig_device, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  bind(so, f.gpu_instance_id, {"nvmlDeviceGetGpuInstanceId"});
  bind(so, f.compute_instance_id, {"nvmlDeviceGetComputeInstanceId"});
  bind(so, f.attributes, {"nvmlDeviceGetAttributes_v2"});
  bind(so, f.link_state, {"nvmlDeviceGetNvLinkState"});
  bind(so, f.link_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  bind(so, f.link_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  bind(so, f.p2p_status, {"nvmlDeviceGetP2PStatus"});
  bind(so, f.cpu_affinity, {"nvmlDeviceGetCpuAffinityWithinScope"});
  bind(so, f.event_set_create, {"nvmlEventSetCreate"});
  bind(so, f.event_register, {"nvmlDeviceRegisterEvents"});
  bind(so, f.event_wait, {"nvmlEventSetWait_v2"});
  return f;
}

}  // namespace

std::variant<Library, LoadFailure> load(const std::string& path) {
  LoadFailure failure;
  auto attempt = [&](const char* name) -> void* {
    void* so = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!so && failure.why.empty()) failure.why = ::dlerror();  // the first name's error is the telling one
    return so;
  };
  void* so = nullptr;
  std::string found = path;
  if (!path.empty()) {
    so = attempt(path.c_str());
  } else {
    for (const char* name : default_names)
      if (!so && (so = attempt(name))) found = name;
  }
  if (!so) return failure;
  Functions call = bind_all(so);
  if (!call.init || !call.count || !call.handle_by_index)
    return LoadFailure{found + " has no nvmlInit, count or handle functions", true};
  return Library{found, call};
}

}  // namespace thole::host::nvidia
