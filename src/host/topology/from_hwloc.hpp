// A machine file's machine from what hwloc told of one. Pure.
#pragma once

#include "host/topology/hwloc_scan.hpp"
#include "model/machine.hpp"

namespace thole::host {

// GPUs are the display controllers and accelerators of the three vendors that compute: neither a server's console adapter nor
// the graphics inside a CPU. Their names, UUIDs and memory sizes come from OS devices (NVML, RSMI, CUDA, OpenCL, Level Zero)
// where the export has them, else from the PCI database; any of these may be missing. Links: NVLink and xGMI from the bandwidth
// matrices, counted where the bandwidth of one link is known, beside the PCI connections.
model::Machine machine_of(HwlocScan scan);

}  // namespace thole::host
