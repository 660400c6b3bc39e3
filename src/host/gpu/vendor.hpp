// What a vendor's folder provides, beside its row in model/vendors.hpp: the functions that look at a machine.
#pragma once

#include <memory>
#include <string>

#include "host/probe/channel.hpp"
#include "host/sysfs/tree.hpp"
#include "model/surroundings.hpp"
#include "model/vendors.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host {

struct DriverOptions {
  std::string root;                        // prefix of every file read; "" is this machine
  std::string program;                     // runs `__probe <vendor>`: this very binary; "" = files alone
  std::string runtime_dir;                 // per user, 0700: a probe's lock and last answer; "" = none
  std::string nvml_path;                   // NVIDIA's library; "" = search
  bool probe_outlives = false;             // this process: so that a driver that comes up can go on doing so
};

struct GpuVendor {
  model::Vendor vendor;
  std::unique_ptr<port::GpuBackend> (*backend)(const DriverOptions& options);
  int (*serve_probe)(ProbeChannel channel);  // the child side, `thole __probe <vendor>`; returns its exit status
  model::VendorDriver (*driver)(const Tree& tree);  // what files tell of it: asks no library, cannot hang
};

inline model::DeviceNode device_node(const Tree& tree, std::string path) {
  const bool usable = tree.readable_and_writable(path);
  return {std::move(path), usable};
}

}  // namespace thole::host
