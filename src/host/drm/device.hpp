// What the kernel's DRM layer shows of one GPU: its device nodes, whether it drives a display, its sensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

struct DrmNodes {
  std::optional<unsigned> card, render;        // /dev/dri/card<N>, /dev/dri/renderD<N>
  std::vector<std::string> names() const;      // "card0", "renderD128"
};

// `device` is a directory such as /sys/bus/pci/devices/0000:03:00.0.
DrmNodes drm_nodes(const Tree& tree, const std::string& device);

// Whether a connector of the card is switched on. Unknown without a card.
model::Metric<bool> drives_display(const Tree& tree, const std::string& device);

// The first hwmon directory of the device, "" when it has no sensors.
std::string sensors_of(const Tree& tree, const std::string& device);

// Runtime power management has switched it off: nothing runs on it, and reading its sensors would wake it up.
bool asleep(const Tree& tree, const std::string& device);

// Its configuration space reads as all ones: it has fallen off the bus. Asks the hardware, so in the probe only.
bool off_the_bus(const Tree& tree, const std::string& device);

// Why this process cannot use a device node: a sentence with the fix, "" when it can or when the tree has no /dev at all.
std::string access_problem(const Tree& tree, const std::string& node);

}  // namespace thole::host
