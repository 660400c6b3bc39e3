#include "host/topology/nics.hpp"

#include <gtest/gtest.h>

#include <map>

#include "topologies/captured.hpp"

namespace thole::host {
namespace {

std::string captured(const std::string& name) { return test::captured_tree("hwloc/" + name + ".tar.gz").string() + "/" + name; }

TEST(Nics, AreNamedByTheirInfinibandDeviceElseTheirInterface) {
  auto nics = read_nics(Tree(captured("40intel64-2g2n4c+pci")));
  std::vector<std::string> names;
  for (const model::Nic& nic : nics) names.push_back(nic.name);
  EXPECT_EQ(names, (std::vector<std::string>{"eth0", "eth1", "eth2", "eth3", "qib0"}));  // ib0 is qib0's interface; lo is none
  EXPECT_EQ(nics[4].pci->to_string(), "0000:43:00.0");
  EXPECT_EQ(nics[4].rate_gbps, 40.0);
  EXPECT_EQ(nics[4].numa, 2);
  EXPECT_EQ(nics[0].numa, std::nullopt);  // the firmware gives -1 for the first host bridge
}

TEST(Nics, RateOfALinkThatIsDownIsUnknown) {
  test::MadeUpTree tree;
  const std::map<std::string, std::string> speeds{{"01", "100000"}, {"02", "-1"}, {"03", "4294967295"}, {"04", ""}};
  for (const auto& [bus, speed] : speeds) {
    std::string address = "0000:" + bus + ":00.0", name = "eth" + bus;
    std::string device = tree.pci("pci0000:00", address, "0x15b3", "0x1019", "0x020000");
    tree.file(device + "/net/" + name + "/speed", speed);
    tree.link("sys/class/net/" + name, device + "/net/" + name);
  }
  auto nics = read_nics(Tree(tree.root()));
  ASSERT_EQ(nics.size(), 4u);
  EXPECT_EQ(nics[0].rate_gbps, 100.0);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(nics[i].rate_gbps, std::nullopt) << i;
}

TEST(Nics, VirtualFunctionsOfANicAreLeftOut) {
  test::MadeUpTree tree;
  for (const char* address : {"0000:01:00.0", "0000:01:00.2"}) {
    std::string name = std::string("mlx5_") + address[11];
    std::string device = tree.pci("pci0000:00", address, "0x15b3", "0x1019", "0x020000");
    tree.file(device + "/infiniband/" + name + "/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    tree.link("sys/class/infiniband/" + name, device + "/infiniband/" + name);
  }
  tree.link("sys/devices/pci0000:00/0000:01:00.2/physfn", "sys/devices/pci0000:00/0000:01:00.0");
  auto nics = read_nics(Tree(tree.root()));
  ASSERT_EQ(nics.size(), 1u);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_EQ(nics[0].rate_gbps, 200.0);
}

TEST(Nics, RateTextIsReadStrictly) {
  EXPECT_EQ(parse_infiniband_rate("2.5 Gb/sec (1X SDR)"), 2.5);
  for (const char* bad : {"", "fast", "10", "0 Gb/sec", "x Gb/sec"}) EXPECT_FALSE(parse_infiniband_rate(bad)) << bad;
}

TEST(Nics, APortThatIsDownHasNoRate) {
  test::MadeUpTree tree;
  const std::string device = tree.pci("pci0000:00", "0000:01:00.0", "0x15b3", "0x1021", "0x020700");
  for (const auto& [port, state, rate] :
       {std::array{"1", "1: DOWN", "400 Gb/sec (4X NDR)"}, std::array{"2", "4: ACTIVE", "100 Gb/sec (2X HDR)"}}) {
    tree.file(device + "/infiniband/mlx5_0/ports/" + port + "/rate", rate);
    tree.file(device + "/infiniband/mlx5_0/ports/" + port + "/state", state);
  }
  tree.link("sys/class/infiniband/mlx5_0", device + "/infiniband/mlx5_0");
  EXPECT_EQ(read_nics(Tree(tree.root())).at(0).rate_gbps, 100.0);
  EXPECT_EQ(nic_rate(Tree(tree.root()), "mlx5_0"), 100.0);
  tree.file(device + "/infiniband/mlx5_0/ports/2/state", "2: INIT");
  EXPECT_EQ(read_nics(Tree(tree.root())).at(0).rate_gbps, std::nullopt);
}

}  // namespace
}  // namespace thole::host
