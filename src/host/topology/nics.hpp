// The network adapters that jobs talk through: InfiniBand and RoCE devices, and Ethernet ports that are PCI devices.
#pragma once

#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

// One entry per PCI function, in PCI order: the name under /sys/class/infiniband where there is one (libraries ask by that
// name), else the network interface's. Functions split off a NIC for virtual machines (SR-IOV) are left out.
std::vector<model::Nic> read_nics(const Tree& tree);

// What the NIC of this name carries now; nothing while its link is down.
std::optional<double> nic_rate(const Tree& tree, const std::string& name);

// "400 Gb/sec (4X NDR)" -> 400.
std::optional<double> parse_infiniband_rate(std::string_view text);

}  // namespace thole::host
