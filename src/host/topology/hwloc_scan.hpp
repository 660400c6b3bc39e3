// What hwloc says of a machine, as plain values. The only file beside hwloc_library that knows hwloc's types.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/pci/devices.hpp"
#include "host/topology/hwloc_library.hpp"
#include "model/machine.hpp"

namespace thole::host {

// A device as the operating system names it: "nvml0", "renderD128", "mlx5_0", "eth0".
struct HwlocPort {
  enum class Kind { gpu, network, infiniband, other };
  std::string name;
  Kind kind = Kind::other;
  std::optional<model::PciAddress> pci;         // of the device it belongs to
  std::map<std::string, std::string> about;     // hwloc's info pairs: GPUModel, NVIDIAUUID, …
};

// A table of bandwidths ("NVLinkBandwidth", "XGMIBandwidth"); values[i * objects.size() + j] is from i to j, 0 for none.
struct HwlocMatrix {
  struct Object {
    std::optional<model::PciAddress> pci;       // absent for a package or a NUMA node
    bool nvswitch = false;
  };
  std::string name;
  std::vector<Object> objects;
  std::vector<std::uint64_t> values;
};

struct HwlocScan {
  // Online PUs, ascending. `core`, `l3` and `package` are numbered from 0 in the order of their lowest PU: unique in the
  // machine, whatever the firmware calls them.
  std::vector<model::Cpu> cpus;
  std::vector<model::NumaNode> numa;            // without the memory of GPUs (POWER9, Grace)
  // PCI functions that hwloc keeps (displays, accelerators, network, storage, bridges' children). local_cpus: those of the
  // nearest object that is no I/O; numa: its node where it is one.
  PciDevices devices;
  std::map<model::PciAddress, std::string> names;  // of devices, from the PCI database of the machine that was read
  std::vector<HwlocPort> ports;
  std::vector<HwlocMatrix> matrices;
};

// The machine this process runs on, whole: disallowed CPUs and I/O included, so that a cpuset changes nothing. hwloc
// takes the root of a captured tree from its own variable (HWLOC_FSROOT). Throws Error(unavailable).
HwlocScan scan_machine(const HwlocFunctions& hwloc);

// An exported topology: v1, v2 or v3 XML. Throws Error(usage) when hwloc does not read it; `what` names it.
HwlocScan scan_xml(const HwlocFunctions& hwloc, std::string xml, const std::string& what);

// hwloc 2 refuses exports of hwloc 3 by the version in their first element, though it reads nearly all of them: the version
// is rewritten, and the types of OS devices, which became bit masks, are translated back. Others are left as they are.
void downgrade_hwloc_xml(std::string& xml);

}  // namespace thole::host
