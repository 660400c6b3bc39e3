#include "host/gpu/vendors.hpp"

#include <gtest/gtest.h>

#include <set>

#include "topologies/captured.hpp"

namespace thole::host {
namespace {

TEST(Vendors, TheFoldersStandInTheOrderOfTheTable) {
  ASSERT_EQ(gpu_vendors().size(), std::size(model::vendors));
  for (std::size_t i = 0; i < gpu_vendors().size(); ++i) {
    EXPECT_EQ(gpu_vendors()[i]->vendor, model::vendors[i].vendor);
    EXPECT_EQ(gpu_vendor(model::vendors[i].name), gpu_vendors()[i]);
    EXPECT_NE(gpu_vendors()[i]->backend({}), nullptr);
  }
  EXPECT_EQ(gpu_vendor("topology"), nullptr);
}

TEST(Vendors, NoTwoHaveANameAPciIdOrAVariableInCommon) {
  std::set<std::string_view> names, variables;
  std::set<std::uint16_t> ids;
  for (const model::VendorRow& row : model::vendors) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(ids.insert(row.pci_id).second) << row.name;
    EXPECT_FALSE(model::filled(row.lists).empty()) << row.name;
    for (const std::string_view variable : model::filled(row.lists)) {
      EXPECT_TRUE(variables.insert(variable).second) << variable;
      EXPECT_TRUE(model::is_mask(variable)) << variable;
    }
  }
  EXPECT_FALSE(model::is_mask(""));
  EXPECT_FALSE(model::is_mask("CUDA_DEVICE_ORDER"));
}

std::vector<std::string> paths(const model::VendorDriver& driver) {
  std::vector<std::string> all;
  for (const model::DeviceNode& node : driver.nodes) all.push_back(node.path);
  return all;
}

TEST(Vendors, NvidiasDriverIsToldByItsFiles) {
  test::MadeUpTree tree;
  tree.pci("pci0000:00", "0000:03:00.0", "0x10de", "0x20b0", "0x030200");
  const auto driver = [&] { return gpu_vendor("nvidia")->driver(Tree(tree.root())); };
  EXPECT_FALSE(driver().loaded);
  EXPECT_EQ(driver().pci_gpus, 1u);
  EXPECT_EQ(driver().kept_awake, false);
  tree.file("proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version:  gcc 12.3.0\n");
  for (const char* node : {"dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm"}) tree.file(node, "");
  tree.file("run/nvidia-persistenced/socket", "");
  EXPECT_EQ(driver().loaded, "580.65.06");
  EXPECT_EQ(paths(driver()), (std::vector<std::string>{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}));
  EXPECT_EQ(driver().kept_awake, true);
}

TEST(Vendors, ADrmDriverIsToldByItsModuleAndItsRenderNodes) {
  test::MadeUpTree tree;
  tree.pci("pci0000:00", "0000:03:00.0", "0x1002", "0x74a1", "0x120000");
  tree.file("sys/module/amdgpu/version", "6.10.5\n");
  for (const char* node : {"dev/kfd", "dev/dri/renderD128", "dev/dri/renderD129"}) tree.file(node, "");
  tree.file("sys/class/drm/renderD128/device/vendor", "0x1002\n");
  tree.file("sys/class/drm/renderD129/device/vendor", "0x8086\n");
  const model::VendorDriver amd = gpu_vendor("amd")->driver(Tree(tree.root()));
  EXPECT_EQ(amd.loaded, "6.10.5");
  EXPECT_EQ(paths(amd), (std::vector<std::string>{"/dev/kfd", "/dev/dri/renderD128"}));
  EXPECT_FALSE(amd.kept_awake);
  tree.folder("sys/module/i915");
  const model::VendorDriver intel = gpu_vendor("intel")->driver(Tree(tree.root()));
  EXPECT_EQ(intel.loaded, "");
  EXPECT_EQ(intel.pci_gpus, 0u);
  EXPECT_TRUE(intel.nodes.empty());
}

}  // namespace
}  // namespace thole::host
