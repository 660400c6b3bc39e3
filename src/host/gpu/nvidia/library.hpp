// The driver library (libnvidia-ml.so.1), loaded at run time: a table of optional functions, the newest suffix first.
//
// Only the probe process loads it. A function that the library lacks is a null pointer and reads as "unsupported"; no
// single absent function makes a GPU unreadable, except the few that name it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "host/gpu/nvidia/abi.hpp"

namespace thole::host::nvidia {

// A function of which several generations exist: which one was found decides the layout that it fills.
template <class Signature>
struct Versioned {
  Signature* call = nullptr;
  int version = 0;                                         // 1, 2, 3: the suffix that was found
};

struct Functions {
  using D = abi::Device;
  using R = abi::Return;
  using u32 = std::uint32_t;

  R (*init)() = nullptr;
  R (*driver_version)(char*, u32) = nullptr;
  R (*nvml_version)(char*, u32) = nullptr;
  R (*count)(u32*) = nullptr;
  R (*handle_by_index)(u32, D*) = nullptr;
  R (*handle_by_pci)(const char*, D*) = nullptr;
  R (*handle_by_uuid)(const char*, D*) = nullptr;
  R (*uuid)(D, char*, u32) = nullptr;
  R (*name)(D, char*, u32) = nullptr;
  R (*serial)(D, char*, u32) = nullptr;
  R (*pci_info)(D, abi::PciInfo*) = nullptr;
  R (*minor)(D, u32*) = nullptr;

  R (*memory_v2)(D, abi::MemoryV2*) = nullptr;
  R (*memory)(D, abi::Memory*) = nullptr;
  R (*utilization)(D, abi::Utilization*) = nullptr;
  R (*temperature_v)(D, abi::Temperature*) = nullptr;
  R (*temperature)(D, u32 sensor, u32*) = nullptr;
  R (*power)(D, u32* milliwatt) = nullptr;
  R (*power_limit)(D, u32* milliwatt) = nullptr;
  R (*compute_mode)(D, int*) = nullptr;
  R (*display_active)(D, int*) = nullptr;
  R (*display_mode)(D, int*) = nullptr;
  R (*fields)(D, int count, abi::FieldValue*) = nullptr;
  R (*clock_reasons)(D, std::uint64_t* bits) = nullptr;
  R (*fabric)(D, abi::FabricInfo*) = nullptr;

  using ProcessList = R(D, u32* count, void* entries);
  Versioned<ProcessList> compute_processes, graphics_processes, mps_processes;

  R (*accounting_mode)(D, u32*) = nullptr;
  R (*accounting_pids)(D, u32* count, u32*) = nullptr;
  R (*accounting_stats)(D, u32 pid, abi::AccountingStats*) = nullptr;

  R (*mig_mode)(D, u32* current, u32* pending) = nullptr;
  R (*max_mig_devices)(D, u32*) = nullptr;
  R (*mig_device)(D, u32 index, D*) = nullptr;
  R (*gpu_instance_id)(D, u32*) = nullptr;
  R (*compute_instance_id)(D, u32*) = nullptr;
  R (*attributes)(D, abi::Attributes*) = nullptr;

  R (*link_state)(D, u32 link, u32* active) = nullptr;
  R (*link_remote_pci)(D, u32 link, abi::PciInfo*) = nullptr;
  R (*link_remote_type)(D, u32 link, int*) = nullptr;
  R (*p2p_status)(D, D, u32 caps, u32* status) = nullptr;
  R (*cpu_affinity)(D, u32 words, unsigned long*, u32 scope) = nullptr;

  R (*event_set_create)(abi::EventSet*) = nullptr;
  R (*event_register)(D, std::uint64_t types, abi::EventSet) = nullptr;
  R (*event_wait)(abi::EventSet, abi::Event*, u32 timeout_ms) = nullptr;
};

struct Library {
  std::string path;                                        // the name under which it was found
  Functions call;
};

struct LoadFailure {
  std::string why;                                         // dlerror's words, or what is missing from the library
  bool found = false;                                      // a library was there but is no driver's (a stub)
};

// Loads `path`, or when it is empty libnvidia-ml.so.1, then the unversioned name, then WSL's path. The versioned name comes
// first because the unversioned one belongs to development packages and may be a stub. Never unloaded: NVML leaves threads and
// exit handlers behind.
std::variant<Library, LoadFailure> load(const std::string& path);

}  // namespace thole::host::nvidia
