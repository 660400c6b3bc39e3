// Captured machines (tests/topologies) as this tool reads them.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.hpp"
#include "host/gpu/amd/backend.hpp"
#include "host/topology/live.hpp"
#include "model/json.hpp"
#include "support/golden.hpp"
#include "test_folders.hpp"
#include "topologies/captured.hpp"

namespace thole {
namespace {

// One line for each CPU, node, GPU and NIC.
std::string shown_capture(const std::string& root) {
  host::LiveTopology topology({root, {THOLE_BINARY_DIR "/fake/fake_probe", "", ""}});
  const model::Machine machine = topology.around(host::AmdBackend({root}).read(Millis(1000)).gpus, Millis(10'000));
  EXPECT_EQ(topology.problem().empty(), !machine.cpus.empty());
  std::string text;
  const model::Json json = model::to_json(machine);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_array()) text += key + ": " + model::dump(value, -1) + "\n";
    else
      for (const model::Json& element : value) text += key + ": " + model::dump(element, -1) + "\n";
  }
  return text;
}

void compare(const std::string& name, const std::string& now) { test::expect_as_recorded("captured_" + name + ".txt", now); }

class CapturedTree : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Hwloc, CapturedTree,
                         testing::Values("16amd64-8n2c-cpusets", "16em64t-4s2c2t-offlines", "32amd64-4s2n4c-cgroup",
                                         "40intel64-2g2n4c+pci", "fakepcilocalities", "nvidia-dgx-gb10", "nvidiagpunumanodes",
                                         "offline-cpu0-node0"));

TEST_P(CapturedTree, IsReadAsRecorded) {
  const std::string name = GetParam();
  compare(name, shown_capture(test::captured_tree("hwloc/" + name + ".tar.gz").string() + "/" + name));
}

class CapturedKfd : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(K8sDevicePlugin, CapturedKfd,
                         testing::Values("topo-mi210-xgmi-pcie", "topology-parsing-mi308/topology",
                                         "topology-parsing/topology"));

TEST_P(CapturedKfd, IsReadAsRecorded) {
  const std::string name = GetParam();
  test::MadeUpTree tree;
  tree.folder("sys/class/kfd/kfd");
  std::filesystem::create_directory_symlink(test::captured_tree("kfd/k8s-device-plugin.tar.gz") / name,
                                            tree.root() + "/sys/class/kfd/kfd/topology");
  compare("kfd_" + name.substr(0, name.find('/')), shown_capture(tree.root()));
}

}  // namespace
}  // namespace thole
