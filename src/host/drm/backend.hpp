// A GPU backend over files alone, for drivers that live in the kernel (AMD, Intel); what differs is in a FileVendor.
//
// Who the GPUs are comes from files that cannot block and is read in this process, once. Their present use takes locks of
// the driver, and a wedged GPU holds those for ever: it is read in a probe process that can be left behind. A captured
// tree cannot hang, so there everything is read in place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host {

// What a vendor's module provides. A GPU's key() joins its identity and its use.
struct FileVendor {
  const char* name;                        // "amd"
  const char* source;                      // for the observation: "kfd, sysfs"
  bool (*present)(const Tree& tree);
  // Identity, links, place in the machine, health as far as permissions tell it.
  std::vector<model::Gpu> (*identify)(const Tree& tree);
  // Present use, and health as the hardware tells it: emits each GPU as soon as it has been read.
  void (*observe)(const Tree& tree, const std::function<void(model::Gpu)>& emit);
  // Changes when GPUs come or go, so that identity is read again.
  std::string (*generation)(const Tree& tree);
  // A fault of the whole driver, with the fix; "" when there is none.
  std::string (*problem)(const Tree& tree);
};

class FileBackend : public port::GpuBackend {
 public:
  FileBackend(const FileVendor& vendor, std::string root = "");

  std::string name() const override { return vendor_.name; }
  bool present() const override { return vendor_.present(tree_); }
  port::Reading read(Millis patience) override;

 private:
  const FileVendor& vendor_;
  Tree tree_;
  std::vector<model::Gpu> identified_;     // as of generation_
  std::optional<std::string> generation_;
};

}  // namespace thole::host
