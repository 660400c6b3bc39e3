#include "host/drm/driver.hpp"

#include "base/text.hpp"
#include "host/gpu/vendor.hpp"
#include "host/pci/devices.hpp"

namespace thole::host {

model::VendorDriver drm_driver(const Tree& tree, model::Vendor vendor, std::initializer_list<const char*> modules,
                               const char* compute_node) {
  model::VendorDriver driver{.vendor = vendor, .pci_gpus = pci_gpus(tree, vendor).size()};
  for (const char* module : modules)
    if (tree.exists(fmt::format("/sys/module/{}", module)))
      driver.loaded = tree.text(fmt::format("/sys/module/{}/version", module)).value_or("");
  if (driver.pci_gpus == 0) return driver;
  if (*compute_node != '\0' && tree.exists(compute_node)) driver.nodes.push_back(device_node(tree, compute_node));
  for (unsigned minor : tree.numbered("/dev/dri", "renderD")) {
    const auto maker = tree.hex(fmt::format("/sys/class/drm/renderD{}/device/vendor", minor));
    if (maker == row_of(vendor).pci_id) driver.nodes.push_back(device_node(tree, fmt::format("/dev/dri/renderD{}", minor)));
  }
  return driver;
}

}  // namespace thole::host
