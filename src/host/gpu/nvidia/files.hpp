// What the kernel's files tell about NVIDIA GPUs without the library: they cannot hang and wake no GPU.
//
// Sources: /proc/driver/nvidia/{version,params,gpus/<address>/{information,numa_status}},
// /proc/driver/nvidia/capabilities/gpu<minor>/mig, and the PCI devices of /sys (layouts: nv-procfs.c and nv-caps.c of
// NVIDIA's open kernel modules).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {

// gpus/<address>/information. Question marks stand for what the driver learns when the GPU is first initialised: unknown.
struct Information {
  std::string uuid, model;
  std::optional<int> minor;
  bool excluded = false;                                   // by the module's NVreg_ExcludedGpus
};
Information parse_information(std::string_view text);

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …" -> "580.65.06"; "" when there is none.
std::string parse_driver_version(std::string_view text);

struct FileGpu {
  model::PciAddress pci;
  Information information;
  std::string bound_to;                                    // the kernel driver; "" when none
  bool coherent = false;                                   // its memory is a NUMA node of the host
  std::optional<int> memory_numa;                          // and this one
  std::vector<std::array<int, 2>> instances;               // MIG: GPU instance and compute instance ids
};

struct DriverFiles {
  bool loaded = false;                                     // the nvidia kernel module
  std::string version;
  std::vector<FileGpu> gpus;                               // in PCI order
};

// With the module loaded: the GPUs it lists (in a container, only ours). Without: the NVIDIA GPUs on the PCI bus.
DriverFiles read_files(const Tree& tree);

// Whether there is anything for this backend: the module, an NVIDIA GPU on the bus, the
// driver's control device, or WSL's device.
bool any_nvidia(const Tree& tree);

// Whether process ids that the driver reports belong to another pid namespace than ours.
bool pids_are_foreign(const Tree& tree);

}  // namespace thole::host::nvidia
