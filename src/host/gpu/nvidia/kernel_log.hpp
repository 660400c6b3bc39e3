// Xids in the kernel's log: what the driver reported of a GPU before anybody listened for its events.
//
// Lines as the driver writes them: "NVRM: Xid (PCI:0000:07:00): 79, pid=1234, name=python, GPU has fallen off the bus." Only
// the kernel and root write there; names of programs appear within such lines, so that a line counts only by its beginning.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {

struct LoggedXids {
  int last = 0;
  std::optional<int> fatal;  // the first that needs a reset or worse, unless the driver has taken that back since
  std::optional<std::uint64_t> action;  // what the driver wants done about it (Xid 154): abi::RecoveryAction
};

// By GPU, of what was logged since the driver was last loaded.
std::map<model::PciAddress, LoggedXids> parse_xids(std::string_view log);

// The log's last 256 KiB since boot, or since somebody said `dmesg -C`; absent where it may not be read
// (kernel.dmesg_restrict). One call, 1.2 ms for a full log of 128 KiB (measured on a 2-CPU virtual machine, Linux 6.18). Below
// a root prefix the file /dev/kmsg stands for it.
std::optional<std::string> read_kernel_log(const Tree& tree);

// Xids after which the GPU computes no more until it is reset (NVIDIA's Xid catalogue; 79: fallen off the bus).
bool is_fatal_xid(std::uint64_t xid);

}  // namespace thole::host::nvidia
