// What the driver library answered, unjudged: every field is a value or the return code that came instead of it.
//
// `read` fills these in the probe, they travel as one JSON record each, and `translate` makes model values of them in the
// parent. A recorded line is therefore a test input.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/gpu/nvidia/abi.hpp"

namespace thole::host::nvidia {

inline constexpr std::uint32_t largest_pid = 1u << 22;    // PID_MAX_LIMIT of 64-bit Linux

// A value, or the return code (abi::not_asked: the call was never made; abi::absent: the library has no such function).
template <class T>
struct Answer {
  abi::Return rc = abi::not_asked;
  T value{};

  Answer() = default;
  Answer(T v) : rc(abi::ok), value(std::move(v)) {}        // NOLINT: a value is an answer
  static Answer refused(abi::Return rc) { Answer a; a.rc = rc; return a; }
  explicit operator bool() const { return rc == abi::ok; }
  bool operator==(const Answer&) const = default;
};

// The first record of an answer: how loading and initialising the library went.
struct RawDriver {
  std::string found_as;                                    // the file name it was found under
  std::string load_error;                                  // not empty: nothing else was tried
  bool stub_library = false;                               // load_error is about a library that is no driver's
  Answer<std::string> driver, nvml;                        // versions
  abi::Return init = abi::not_asked;
  Answer<std::uint32_t> count;
};

struct RawMemory {
  std::uint64_t total = 0, free = 0, used = 0;
  std::uint64_t reserved = 0;                              // 0 from the v1 call, which counts it as used
  bool v2 = false;
};

struct RawProcess {
  std::uint32_t pid = 0;
  std::uint64_t used_memory = 0;                           // bytes; abi::not_available when it cannot be told
  std::uint32_t gpu_instance = abi::no_instance, compute_instance = abi::no_instance;
  bool operator==(const RawProcess&) const = default;
};
using RawProcesses = Answer<std::vector<RawProcess>>;

struct RawLink {
  std::uint32_t link = 0;
  std::string remote;                                      // PCI address as the library writes it; "" when refused
  int remote_type = -1;                                    // abi::RemoteDevice
};

struct RawPeer {
  std::uint32_t gpu = 0;                                   // index of the other
  abi::Return rc = abi::not_asked;
  std::uint32_t status = 0;                                // P2P over NVLink; 0 is "works"
};

// Who a GPU is; does not change while the driver stays loaded. What the asker knows already is not asked.
struct RawIdentity {
  std::uint32_t index = 0;                                 // the library's, this time
  bool known = false;                                      // nothing but handle and address was asked: the rest is kept
  abi::Return handle = abi::not_asked;                     // what asking for the handle answered; initialises the GPU
  Answer<std::string> uuid, name, serial, pci;
  Answer<std::uint32_t> minor;
  Answer<std::vector<RawLink>> links;                      // active NVLinks
  Answer<std::uint64_t> nvswitch_links;
  std::vector<RawPeer> peers;                              // only where links and switches leave it open who is joined
  Answer<std::vector<std::uint64_t>> cpus_node, cpus_package;  // bit masks, 64 CPUs a word
};

struct RawInstance {
  std::uint32_t index = 0;
  Answer<std::string> uuid, name;
  Answer<std::uint32_t> gpu_instance, compute_instance;
  Answer<std::uint64_t> memory_mib;                        // from the attributes
  Answer<std::uint32_t> gpu_slices, compute_slices;
  Answer<RawMemory> memory;
  RawProcesses compute, graphics, mps;                     // asked only when the parent's list is refused
};

// Whether an NVSwitch board's manager has joined this GPU to the others; until then CUDA does not start (error 802).
struct RawFabric {
  std::uint32_t state = 0;                                 // abi::FabricState
  abi::Return status = abi::ok;                            // of a completed registration
};

// The present use of one GPU, and what of it can change: MIG layout, health. What a purpose does not need stays not_asked.
struct RawUse {
  std::uint32_t index = 0;
  Answer<RawMemory> memory;
  Answer<std::array<std::uint32_t, 2>> utilization;        // gpu, memory
  Answer<std::int64_t> temperature_c;
  Answer<std::uint32_t> power_mw, power_limit_mw;
  Answer<std::int64_t> compute_mode, display_active, display_mode;
  Answer<std::uint64_t> recovery_action;
  Answer<std::uint64_t> remap_pending, remap_failed;       // memory rows: replaced at the next reset; no spare row left
  Answer<std::uint64_t> clock_reasons;                     // bits: abi::slowed_by_…
  Answer<RawFabric> fabric;                                // of a GPU with links to NVSwitches
  RawProcesses compute, graphics, mps;
  Answer<std::uint32_t> accounting;                        // the mode: abi::accounting_on
  Answer<std::uint32_t> mig_mode;
  std::vector<RawInstance> instances;
  Answer<std::uint32_t> instances_told;                    // how many; refused: there may be others
  std::vector<std::uint64_t> xids;                         // reported by the driver since the probe began
};

// A process that the driver's accounting mode has noted, running or over.
struct RawAccount {
  std::uint32_t pid = 0;
  std::uint64_t peak_memory = 0;                           // bytes; abi::not_available when it cannot be told
  std::uint64_t started_us = 0;                            // since 1970
};
struct RawAccounts {
  std::string uuid;                                        // of the GPU
  Answer<std::vector<RawAccount>> list;
};

// A GPU of the files that the library does not list: what opening its device node said.
struct RawUnlisted {
  std::string pci;
  int open_errno = 0;                                      // EPERM: kept from us by a device cgroup; ENOENT: no node here
};

// One line of the probe's answer. Throws std::exception when a line is not one of these.
enum class RecordKind { driver, begin, identity, use, unlisted, accounts };
struct Record {
  RecordKind kind = RecordKind::driver;
  RawDriver driver;
  std::uint32_t begin = 0;                                 // the library is about to be asked about this GPU
  RawIdentity identity;
  RawUse use;
  RawUnlisted unlisted;
  RawAccounts accounts;
};
std::string to_line(const RawDriver& record);
std::string to_line(const RawIdentity& record);
std::string to_line(const RawUse& record);
std::string to_line(const RawUnlisted& record);
std::string to_line(const RawAccounts& record);
std::string begin_line(std::uint32_t index);
Record parse_line(std::string_view line);

}  // namespace thole::host::nvidia
