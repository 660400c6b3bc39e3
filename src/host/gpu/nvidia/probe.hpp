// The child side: `thole __probe nvidia`. Reads request lines, streams one record a GPU, ends each answer with a lone ".".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/probe/channel.hpp"

namespace thole::host::nvidia {

// What the parent asks; one JSON line.
struct ProbeRequest {
  struct Node { std::string pci, path; };
  std::string nvml_path;                                   // path of the driver library; "" = search for it
  std::vector<std::uint32_t> last;                         // GPUs that hung or crashed before: read after all others
  std::vector<Node> nodes;                                 // the GPUs of the files, to look at those that the library omits
  bool want_cpus = false;                                  // sysfs did not tell the near CPUs
  std::vector<std::string> accounts_of;                    // UUIDs: nothing but the accounts of these GPUs is asked …
  std::uint64_t since_us = 0;                              // … of processes that started since then (1970)

  std::string to_line() const;
  static ProbeRequest parse(std::string_view line);        // throws std::exception when it is not one
};

// Serves until the parent hangs up or asks nothing for a while; the exit status is of no meaning.
int serve_probe(ProbeChannel channel);

}  // namespace thole::host::nvidia
