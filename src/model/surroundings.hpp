// What the files around the GPUs say about driver, permissions and containers; read for `doctor` only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/vendors.hpp"

namespace thole::model {

struct DeviceNode {
  std::string path;                            // "/dev/nvidia0"
  bool usable = false;                         // this user may read and write it
};

struct VendorDriver {
  Vendor vendor;
  std::size_t pci_gpus = 0;                    // on the PCI bus, whether or not a driver drives them
  std::optional<std::string> loaded{};         // the kernel driver's version, "" where it tells none; absent: not loaded
  std::vector<DeviceNode> nodes{};             // what a program opens to use it
  std::optional<bool> kept_awake{};            // between programs, by a daemon; absent: it needs none
};

// What becomes of a user's processes when he logs out.
struct Logout {
  bool logind = false;                         // systemd-logind keeps the sessions
  bool ends_all = false;                       // and ends what a user runs with his last one (KillUserProcesses=yes)
  bool lingers = false;                        // this user's own manager, and what it runs, stays and comes with a boot
};

struct Surroundings {
  std::vector<VendorDriver> drivers;           // of vendors that the PCI bus or a driver shows
  bool wsl = false;                            // GPUs come through /dev/dxg: no device nodes, no /proc/driver
  bool container = false;
  bool state_dir_mounted = false;  // the state directory is a mount of its own (in a container: shared with outside)
  std::vector<std::string> common_directories; // those of the common state directories that exist, the best first
  Logout logout;
  bool safe_gpu = false;                       // its lock file is here: others on this machine use safe-gpu
};

}  // namespace thole::model
