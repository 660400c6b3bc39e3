// What the files say and what the library said, as one reading. Pure: how a hung, crashed, missing or half-blind driver looks
// to the rest of thole is decided here.
#pragma once

#include <cstdint>
#include <optional>

#include "host/gpu/nvidia/files.hpp"
#include "host/gpu/nvidia/kernel_log.hpp"
#include "host/gpu/nvidia/translate.hpp"
#include "host/probe/runner.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host::nvidia {

struct Observed {
  DriverFiles files;
  RawReading nvml;                                         // what arrived before the outcome
  ProbeOutcome outcome;
  bool asked = true;                                       // false: the files say that it would be pointless
  std::optional<RawReading> earlier;                       // the last complete answer, while there is no newer one
  Millis earlier_age{0};
  bool log_read = false;                                   // the kernel's log, for …
  std::map<model::PciAddress, LoggedXids> logged;
  bool pids_foreign = false;
  std::optional<std::uint64_t> host_memory_mib;            // for GPUs without memory of their own
  WallTime now{};
};

// Joined by PCI address, then by UUID; in PCI order. A GPU that the library does not list is left out when it is kept from us
// (a device cgroup, a container without its node), and lost otherwise.
port::Reading merge(const Observed& observed);

}  // namespace thole::host::nvidia
