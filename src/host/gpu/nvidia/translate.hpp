// Raw answers to model values. Pure: every rule about what a return code or a number means is here or in `merge`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/gpu/nvidia/raw.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {

// The records of one answer, sorted. Lines that are no record are counted, not believed.
struct RawReading {
  std::optional<RawDriver> driver;
  std::map<std::uint32_t, RawIdentity> identities;         // by the library's index
  std::map<std::uint32_t, RawUse> uses;
  std::set<std::uint32_t> in_progress;                     // the library was asked about it and has not answered
  std::vector<RawUnlisted> unlisted;
  std::vector<RawAccounts> accounts;                       // where only they were asked for
  unsigned garbage = 0;

  void add(std::string_view line);
  bool has(std::uint32_t index) const;                     // nothing more is to come about this GPU
};

// "no permission", "not supported" … ; "error 77" for a code without a name.
std::string describe(abi::Return rc);

// A refused answer as a metric: codes that mean "this GPU or library does not have it" are unsupported, others failed.
bool means_unsupported(abi::Return rc);

// What programs use. The driver's reserve is not use; the v1 call of the drivers that lack v2 does not count it as used either
// (gpustat issue 141).
model::Metric<std::uint64_t> used_mib(const Answer<RawMemory>& memory);

// Name, address, minor, near CPUs.
void apply(model::Gpu& gpu, const RawIdentity& raw);

// Use, health, compute mode, display, MIG instances.
void apply(model::Gpu& gpu, const RawUse& raw);

// Compute, graphics and MPS lists as one, one entry a pid. A pid on the MPS list is an MPS client wherever else it is listed.
model::Metric<std::vector<model::GpuProcess>> merge_processes(const RawProcesses& compute, const RawProcesses& graphics,
                                                              const RawProcesses& mps);

// NVLink connections between the GPUs read, by index: links that end at the other GPU; else both reach the NVSwitch; else
// the driver says that peer access goes over NVLink.
std::map<std::uint32_t, std::vector<model::Link>> nvlinks(const std::map<std::uint32_t, RawIdentity>& gpus);

// Why no GPU could be read, with the fix, and the health that gives them all; nothing when the library works.
struct DriverTrouble {
  model::Health health = model::Health::unreadable;
  std::string sentence;
};
std::optional<DriverTrouble> trouble(const RawDriver& driver);

}  // namespace thole::host::nvidia
