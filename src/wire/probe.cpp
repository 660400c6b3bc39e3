#include "wire/probe.hpp"

#include <sys/resource.h>

#include <csignal>

#include "base/error.hpp"
#include "host/gpu/nvidia/placeholder.hpp"
#include "host/gpu/vendors.hpp"
#include "host/topology/reader.hpp"

namespace thole::wire {

int run_probe(const std::vector<std::string>& words) {
  if (words.size() != 1) throw Error(ErrorCode::usage, "__probe: machinery of thole, called with the name of a backend");
  const struct rlimit none {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);                         // a driver library that crashes is no reason for a core file
  ::signal(SIGPIPE, SIG_IGN);
  const std::string& name = words.front();
  if (const host::GpuVendor* vendor = host::gpu_vendor(name)) return vendor->serve_probe(host::ProbeChannel::take_over_stdio());
  if (name == "topology") return host::serve_topology_probe(host::ProbeChannel::take_over_stdio());
  return exit_status(ErrorCode::usage);
}

int run_placeholder(const std::vector<std::string>& words) {
  if (words.size() < 2) throw Error(ErrorCode::usage, "__placeholder: machinery of thole, called with a library and UUIDs");
  return host::be_placeholder(words.front(), {words.begin() + 1, words.end()});
}

}  // namespace thole::wire
