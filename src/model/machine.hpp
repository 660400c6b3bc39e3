// A machine as data: its CPUs, memory nodes, GPUs, NICs and their present use (schema thole/machine/1).
//
// The same values come from a live machine, from a captured or simulated machine file, and go out through
// --json and the C ABI. Unknown is null or absent, never 0.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "model/cpu_set.hpp"
#include "model/metric.hpp"
#include "model/vendors.hpp"

namespace thole::model {

enum class Health { ok, lost, reset_required, driver_mismatch, unreadable, hung };
enum class LinkKind { nvlink, nvswitch, xgmi, c2c, pix, pxb, phb, node, sys };

const char* to_string(Health health);      // "reset-required", …
const char* to_string(LinkKind kind);
std::optional<Health> parse_health(std::string_view text);
std::optional<LinkKind> parse_link_kind(std::string_view text);

// A PCI address in canonical form "0000:0a:00.0". NVML's "00000000:0A:00.0" parses too.
struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0, device = 0, function = 0;
  static std::optional<PciAddress> parse(std::string_view text);
  std::string to_string() const;
  auto operator<=>(const PciAddress&) const = default;
};

// A process that the driver (or a machine file) reports on a GPU.
struct GpuProcess {
  enum class Kind { compute, graphics, both, mps };
  pid_t pid = 0;                              // in the driver's pid namespace; see Observation::pids_foreign
  std::string user;                           // "" when it cannot be known
  std::optional<std::uint32_t> uid;           // whose name that is, where it is somebody here
  std::string command;                        // "" when it cannot be known
  Kind kind = Kind::compute;
  Metric<std::uint64_t> memory_mib;
  bool watch = false;                         // simulated machines: the pid is real on this host; when it ends, so does the use
  bool operator==(const GpuProcess&) const = default;
};
const char* to_string(GpuProcess::Kind kind);
std::optional<GpuProcess::Kind> parse_process_kind(std::string_view text);

// What a driver's accounting mode notes of a process, also of one that is over.
struct ProcessAccount {
  WallTime started{};
  std::uint64_t peak_memory_mib = 0;
  bool operator==(const ProcessAccount&) const = default;
};

// The present use of one GPU or MIG instance.
struct Use {
  Metric<std::uint64_t> memory_used_mib;      // allocated by programs; the driver's own reserve is not counted
  Metric<std::uint64_t> memory_free_mib;      // as the driver says: what is left beside use and its own reserve
  Metric<double> utilization_percent;         // share of the last sampling period in which a kernel ran
  Metric<double> memory_utilization_percent;  // share in which memory was read or written
  Metric<double> temperature_c;
  Metric<double> power_w, power_limit_w;
  Metric<std::vector<GpuProcess>> processes;
  bool operator==(const Use&) const = default;
};

struct Link {
  PciAddress to;                              // a GPU, a NIC or a switch of the fabric
  LinkKind kind = LinkKind::sys;
  std::optional<int> count;                   // NVLink/xGMI links, where it makes sense
  std::optional<int> weight;                  // KFD's weight, for xGMI
  bool operator==(const Link&) const = default;
};

struct NearCpus {
  std::optional<CpuSet> node, package;        // what the platform names as near within that scope; absent = unknown
  bool operator==(const NearCpus&) const = default;
};

// A MIG instance (NVIDIA), or a compute partition or tile (AMD, Intel): a device of its own.
struct Instance {
  std::string uuid;                           // "MIG-…", or "<parent uuid>.<part>"
  std::string profile;                        // "3g.40gb"
  std::optional<std::uint64_t> memory_mib;
  std::array<int, 2> instance{-1, -1};        // GPU instance id, compute instance id
  Use use;
  bool operator==(const Instance&) const = default;
};

struct Gpu {
  std::string uuid;                           // "" when it cannot be read; key() is then made from the PCI address
  Vendor vendor = Vendor::nvidia;
  std::string model;                          // "" when it cannot be read
  std::string serial;                         // of the board; "" when there is none, or it cannot be read
  std::string driver;                         // its driver's version; "" when it cannot be read
  std::optional<PciAddress> pci;
  std::optional<int> minor;                   // /dev/nvidiaN, or the DRM render minor
  std::optional<int> cuda_index;  // number that CUDA (by default), ROCm or Level Zero gives it, where not PCI order's
  std::optional<std::uint64_t> memory_mib;    // total, as the driver reports it
  std::optional<int> numa;                    // absent when unknown (-1 in sysfs)
  std::optional<int> part;                    // partition number where several GPUs share one PCI function (AMD)
  NearCpus near_cpus;
  std::vector<Link> links;
  bool mig_mode = false;
  std::vector<Instance> mig;
  Metric<bool> display;                       // drives a display
  Metric<bool> monitor;                       // one is plugged in, whether it is driven or not
  bool coherent = false;                      // memory in use says nothing about being busy (Grace class)
  std::optional<int> memory_numa;             // the node of the host that its own memory is, where it is one
  Metric<std::string> compute_mode;           // "default", "exclusive-process", "prohibited"
  Health health = Health::ok;
  std::string health_reason;                  // "" when ok; a sentence otherwise
  std::vector<std::string> remarks;           // what works and should be looked after; asked for by an examination only
  std::optional<int> last_xid;
  Use use;
  // Simulated machines: what the driver has noted of processes. Nothing: it keeps no accounts. Of a real driver they are asked
  // through port::GpuBackend::peak_memory_mib().
  std::optional<std::vector<ProcessAccount>> accounts;

  // What names this GPU in claims: the UUID, else "pci-<address>.<part>".
  std::string key() const;
  bool operator==(const Gpu&) const = default;
};

// An identity as the name of its lock: every byte but [A-Za-z0-9.:-] replaced, at most 96 of them.
std::string lock_name(std::string_view identity);

struct Cpu {
  unsigned id = 0;
  std::optional<int> core, l3, numa, package;
  bool operator==(const Cpu&) const = default;
};

struct NumaNode {
  int id = 0;
  std::optional<std::uint64_t> memory_mib;
  bool operator==(const NumaNode&) const = default;
};

struct Nic {
  std::string name;
  std::optional<PciAddress> pci;
  std::optional<int> numa;
  std::optional<double> rate_gbps;
  std::vector<Link> links = {};               // to other NICs; how GPUs reach this one stands with the GPUs
  bool operator==(const Nic&) const = default;
};

// What was allotted to us from outside. Narrows, never widens.
struct Outer {
  std::optional<std::string> visible_devices;  // a simulated CUDA_VISIBLE_DEVICES
  std::optional<CpuSet> allowed_cpus;
  bool operator==(const Outer&) const = default;
};

struct Machine {
  std::string name;
  std::string hwloc_xml;                      // path of a topology file used instead of cpus and numa, "" if none
  std::vector<Cpu> cpus;
  std::vector<NumaNode> numa;
  std::vector<Gpu> gpus;                      // in PCI order (then part); a GPU's index is its position here
  std::vector<Nic> nics;
  Outer outer;
  bool operator==(const Machine&) const = default;
};

// Calls alter(process) for each process on the GPUs and on their instances, in that order.
template <class Alter>
void for_each_process(std::vector<Gpu>& gpus, Alter alter) {
  const auto of = [&](Use& use) {
    if (!use.processes.known()) return;
    std::vector<GpuProcess> processes = *use.processes;
    for (GpuProcess& process : processes) alter(process);
    use.processes = std::move(processes);
  };
  for (Gpu& gpu : gpus) {
    of(gpu.use);
    for (Instance& instance : gpu.mig) of(instance.use);
  }
}

// How one vendor's reading went.
struct Observation {
  std::string backend;                        // a vendor's name, or "file"
  std::string source;                         // "nvml 580.65", "procfs", "/path/machine.json"
  std::string problem;                        // "" when all went well; else a sentence with the fix
  bool answered = true;                       // false: the driver did not answer in time, only files were read
  bool pids_foreign = false;                  // process ids belong to another pid namespace
  std::optional<Millis> age;                  // of the data when it is stale (the probe is dead)
  bool operator==(const Observation&) const = default;
};

// One reading of the machine; everything that is decided is a function of it (and of the claims).
struct Snapshot {
  Machine machine;
  std::vector<Observation> observations;
  WallTime taken_at{};
  bool simulated = false;
};

}  // namespace thole::model
