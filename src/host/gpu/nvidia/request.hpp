// What the parent asks of the NVIDIA probe; one JSON line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "port/gpu_backend.hpp"

namespace thole::host::nvidia {

struct ProbeRequest {
  // A GPU of the kernel's files, and what need not be asked about it.
  struct Node {
    std::string pci, path;                                 // path of its device node; "" when the files do not tell
    bool named = false;                                    // the files tell UUID, model and minor
    bool known = false;                                    // its identity and its links are kept from an earlier probe
    bool connectors = true;                                // it could have a monitor plugged in
  };
  std::string nvml_path;                                   // path of the driver library; "" = search for it
  std::string driver;                                      // version by the kernel's files; "" = ask the library
  port::Purpose purpose = port::Purpose::show;
  std::vector<std::uint32_t> only;                         // GPUs, by the library's index: no others are asked; empty = all
  std::vector<std::uint32_t> last;                         // GPUs that hung or crashed before: read after all others
  std::vector<Node> nodes;
  bool want_cpus = false;                                  // sysfs did not tell the near CPUs
  bool events = true;                                      // Xids are to be heard from the library: the log cannot be read
  std::vector<std::string> accounts_of;                    // UUIDs: nothing but the accounts of these GPUs is asked …
  std::uint64_t since_us = 0;                              // … of processes that started since then (1970)

  // The node of an address as the library writes it; a GPU without one is asked for everything.
  Node node(std::string_view pci) const;

  std::string to_line() const;
  static ProbeRequest parse(std::string_view line);        // absent keys have their defaults; throws std::exception
};

}  // namespace thole::host::nvidia
