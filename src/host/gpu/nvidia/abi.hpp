// The part of NVML's binary interface that thole uses, in our own words: identifiers, layouts, return codes.
//
// No vendor header is needed to build. Layouts are those of x86-64 and aarch64 Linux, checked against NVML 13.3; every
// size and offset is pinned below, because a wrong one would read another GPU's numbers without complaint.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thole::host::nvidia::abi {

using Device = void*;  // opaque
using EventSet = void*;
using Return = int;

// Return codes. `not_asked` and `absent` are ours: the call was never made; the library has no such function.
enum : Return {
  not_asked = -1,
  ok = 0, uninitialized = 1, invalid_argument = 2, not_supported = 3, no_permission = 4, not_found = 6, insufficient_size = 7,
  driver_not_loaded = 9, timeout = 10, irq_issue = 11, library_not_found = 12, function_not_found = 13, corrupted_inforom = 14,
  gpu_is_lost = 15, reset_required = 16, operating_system = 17, lib_rm_version_mismatch = 18, in_use = 19, memory = 20,
  no_data = 21, insufficient_resources = 23, argument_version_mismatch = 25, deprecated = 26, not_ready = 27,
  gpu_not_found = 28, invalid_state = 29, unknown = 999,
  absent = 1013,
};

inline constexpr unsigned uuid_size = 96, name_size = 96, serial_size = 30, version_size = 80;
inline constexpr unsigned max_links = 36;                  // 18 in older headers; reading stops at the first refusal
inline constexpr unsigned scope_node = 0, scope_socket = 1;
inline constexpr unsigned p2p_caps_nvlink = 2, p2p_status_ok = 0;
inline constexpr unsigned temperature_gpu = 0;
inline constexpr std::uint32_t no_instance = 0xFFFFFFFF;   // gpu and compute instance ids outside MIG
inline constexpr std::uint64_t not_available = ~0ULL;      // "the memory of this process cannot be told"
inline constexpr std::uint64_t event_xid = 8;
// Fields of nvmlDeviceGetFieldValues. 144 and 145 are 0 or 1; power in milliwatts: 185 over a second, 186 this instant (chips
// before Ampere, GA100), as nvmlDeviceGetPowerUsage chooses between them.
inline constexpr std::uint32_t field_remap_pending = 144, field_remap_failed = 145, field_nvswitch_links = 147,
                               field_power_average = 185, field_power_instant = 186, field_power_limit = 190,
                               field_recovery_action = 230;
// What a field 230 says has to be done (nvmlDeviceGpuRecoveryAction_t; 5 to 7 since NVML 13).
enum RecoveryAction : std::uint64_t {
  recover_nothing = 0, recover_reset = 1, recover_reboot = 2, recover_drain_p2p = 3, recover_drain_and_reset = 4,
  recover_imex_domain = 5, recover_bus_reset = 6, recover_system_reboot = 7,
};
// Why the clocks are below what was asked for, as bits (nvmlClocksEventReason…): those that a person can do something about.
inline constexpr std::uint64_t slowed_by_hardware = 0x08, slowed_by_heat = 0x20, slowed_by_hardware_heat = 0x40,
                               slowed_by_power_brake = 0x80;
enum FabricState : std::uint32_t {
  fabric_not_supported = 0, fabric_not_started = 1, fabric_in_progress = 2, fabric_completed = 3,
};
inline constexpr std::uint32_t accounting_on = 1;
enum ComputeMode : int { mode_default = 0, mode_exclusive_thread = 1, mode_prohibited = 2, mode_exclusive_process = 3 };
enum RemoteDevice : int { remote_gpu = 0, remote_ibmnpu = 1, remote_switch = 2, remote_unknown = 255 };

// Versioned structs carry sizeof | version << 24 in their first field.
template <class T>
constexpr std::uint32_t versioned(unsigned version) { return static_cast<std::uint32_t>(sizeof(T)) | version << 24; }

struct PciInfo {                                           // filled by nvmlDeviceGetPciInfo_v2 and _v3
  char bus_id_legacy[16];
  std::uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16 && offsetof(PciInfo, pci_device_id) == 28 &&
              offsetof(PciInfo, bus_id) == 36);

struct Memory { std::uint64_t total, free, used; };
static_assert(sizeof(Memory) == 24 && offsetof(Memory, free) == 8 && offsetof(Memory, used) == 16);

struct MemoryV2 { std::uint32_t version; std::uint64_t total, reserved, free, used; };
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8 && offsetof(MemoryV2, reserved) == 16 &&
              offsetof(MemoryV2, free) == 24 && offsetof(MemoryV2, used) == 32 && versioned<MemoryV2>(2) == 0x02000028);

struct Utilization { std::uint32_t gpu, memory; };
static_assert(sizeof(Utilization) == 8 && offsetof(Utilization, memory) == 4);

struct ProcessV1 { std::uint32_t pid; std::uint64_t used_memory; };              // unsuffixed functions
static_assert(sizeof(ProcessV1) == 16 && offsetof(ProcessV1, used_memory) == 8);

struct ProcessV2 {                                         // filled by the _v2 and the _v3 functions
  std::uint32_t pid;
  std::uint64_t used_memory;
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessV2) == 24 && offsetof(ProcessV2, gpu_instance) == 16 &&
              offsetof(ProcessV2, compute_instance) == 20);

struct ProcessWide {                                       // _v3 of drivers 535.43 <= v < 535.86 (gpustat issue 161)
  std::uint32_t pid;
  std::uint64_t used_memory;
  std::uint32_t gpu_instance, compute_instance;
  std::uint64_t protected_memory;
};
static_assert(sizeof(ProcessWide) == 32 && offsetof(ProcessWide, protected_memory) == 24);

struct Temperature { std::uint32_t version, sensor; std::int32_t celsius; };     // nvmlDeviceGetTemperatureV, NVML 12.8
static_assert(sizeof(Temperature) == 12 && offsetof(Temperature, celsius) == 8 && versioned<Temperature>(1) == 0x0100000C);

struct FieldValue {
  std::uint32_t field, scope;
  std::int64_t timestamp_us, latency_us;
  std::uint32_t type;
  Return rc;
  union { double d; std::uint32_t u32; std::uint64_t u64; std::int64_t i64; std::int32_t i32; std::uint16_t u16; } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, timestamp_us) == 8 && offsetof(FieldValue, type) == 24 &&
              offsetof(FieldValue, rc) == 28 && offsetof(FieldValue, value) == 32);
enum FieldType : std::uint32_t {
  type_double = 0, type_u32 = 1, type_ulong = 2, type_u64 = 3, type_i64 = 4, type_i32 = 5, type_u16 = 6,
};

struct FabricInfo {                                        // nvmlDeviceGetGpuFabricInfoV, version 2
  std::uint32_t version;
  unsigned char cluster[16];
  Return status;                                           // how the registration ended, once it is completed
  std::uint32_t clique;
  unsigned char state;                                     // FabricState
  std::uint32_t health_mask;
};
static_assert(sizeof(FabricInfo) == 36 && offsetof(FabricInfo, status) == 20 && offsetof(FabricInfo, state) == 28 &&
              offsetof(FabricInfo, health_mask) == 32 && versioned<FabricInfo>(2) == 0x02000024);

struct Attributes {                                        // of a MIG device; nvmlDeviceGetAttributes_v2
  std::uint32_t multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
  std::uint64_t memory_mib;
};
static_assert(sizeof(Attributes) == 40 && offsetof(Attributes, gpu_slices) == 24 && offsetof(Attributes, memory_mib) == 32);

struct AccountingStats {                                   // of one process; nvmlDeviceGetAccountingStats
  std::uint32_t gpu_utilization, memory_utilization;
  std::uint64_t max_memory, time_ms;                       // bytes; time_ms: 0 while it runs
  std::uint64_t start_us;                                  // since 1970
  std::uint32_t is_running, reserved[5];
};
static_assert(sizeof(AccountingStats) == 56 && offsetof(AccountingStats, max_memory) == 8 &&
              offsetof(AccountingStats, start_us) == 24 && offsetof(AccountingStats, is_running) == 32);

struct Event {                                             // nvmlEventSetWait_v2
  Device device;
  std::uint64_t type, value;                               // value: the Xid
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(Event) == 32 && offsetof(Event, type) == 8 && offsetof(Event, value) == 16 &&
              offsetof(Event, gpu_instance) == 24);

}  // namespace thole::host::nvidia::abi
