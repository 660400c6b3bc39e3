#include <gtest/gtest.h>

#include <map>
#include <set>

#include "host/machine/cpus.hpp"
#include "host/machine/nics.hpp"
#include "host/machine/sysfs_topology.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

std::string captured(const std::string& name) { return test::captured_tree("hwloc/" + name + ".tar.gz").string() + "/" + name; }

std::size_t distinct(const std::vector<model::Cpu>& cpus, std::optional<int> model::Cpu::*member) {
  std::set<int> values;
  for (const model::Cpu& cpu : cpus)
    if (cpu.*member) values.insert(*(cpu.*member));
  return values.size();
}

// What hwloc itself finds in its captured machines. Numbers from the .console or .xml file beside each archive in hwloc's
// tests/hwloc/linux; where hwloc also obeys a captured cpuset (we do not: that is the outer allotment), from sysfs by hand.
struct Captured {
  const char* name;
  std::size_t pus, cores, l3, packages, nodes;
  friend std::ostream& operator<<(std::ostream& out, const Captured& c) { return out << c.name; }
};
class Machines : public ::testing::TestWithParam<Captured> {};
INSTANTIATE_TEST_SUITE_P(Hwloc, Machines,
                         ::testing::Values(Captured{"16amd64-8n2c-cpusets", 15, 15, 0, 8, 8},      // by hand: cpu4 is offline
                                           Captured{"16em64t-4s2c2t-offlines", 12, 7, 4, 4, 1},    // .console
                                           Captured{"32amd64-4s2n4c-cgroup", 32, 32, 8, 4, 8},     // by hand
                                           Captured{"40intel64-2g2n4c+pci", 40, 40, 4, 4, 4},      // .xml
                                           Captured{"fakepcilocalities", 40, 40, 0, 4, 4},         // .xml
                                           Captured{"nvidia-dgx-gb10", 20, 20, 2, 1, 1},           // .xml
                                           Captured{"nvidiagpunumanodes", 32, 8, 4, 2, 2},         // .console
                                           Captured{"offline-cpu0-node0", 17, 17, 2, 2, 1}));      // .console

TEST_P(Machines, HaveTheCountsThatHwlocFinds) {
  const Captured& expected = GetParam();
  model::Machine machine = SysfsTopology(captured(expected.name)).read();
  EXPECT_EQ(machine.cpus.size(), expected.pus);
  EXPECT_EQ(distinct(machine.cpus, &model::Cpu::core), expected.cores);
  EXPECT_EQ(distinct(machine.cpus, &model::Cpu::l3), expected.l3);
  EXPECT_EQ(distinct(machine.cpus, &model::Cpu::package), expected.packages);
  EXPECT_EQ(machine.numa.size(), expected.nodes);
  EXPECT_TRUE(machine.gpus.empty());
}

TEST_P(Machines, NumberGroupsByTheirLowestPu) {
  auto cpus = read_cpus(Tree(captured(GetParam().name)));
  for (auto member : {&model::Cpu::core, &model::Cpu::l3, &model::Cpu::package}) {
    int next = 0;
    for (const model::Cpu& cpu : cpus) {
      if ((cpu.*member).value_or(-1) >= next) {
        EXPECT_EQ(*(cpu.*member), next++) << "PU " << cpu.id;
      }
    }
  }
}

TEST(Machine, OfflinePusAreNotThere) {
  auto cpus = read_cpus(Tree(captured("offline-cpu0-node0")));
  ASSERT_EQ(cpus.size(), 17u);
  EXPECT_EQ(cpus.front().id, 4u);
  EXPECT_EQ(cpus.back().id, 20u);
  for (const model::Cpu& cpu : cpus)  // node 0 is offline: its PUs have no node, the others node 1
    EXPECT_EQ(cpu.numa, cpu.id % 2 ? std::optional(1) : std::nullopt) << cpu.id;
}

TEST(Machine, PusOfOneCoreShareItsNumber) {
  auto cpus = read_cpus(Tree(captured("nvidiagpunumanodes")));
  ASSERT_EQ(cpus.size(), 32u);  // SMT-4; two cores share a level-3 cache
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    EXPECT_EQ(cpus[i].core, static_cast<int>(i / 4));
    EXPECT_EQ(cpus[i].l3, static_cast<int>(i / 8));
    EXPECT_EQ(cpus[i].package, static_cast<int>(i / 16));
    EXPECT_EQ(cpus[i].numa, i < 16 ? 0 : 8);
  }
}

TEST(Machine, MemoryOfGpusIsNoNodeForPrograms) {
  auto nodes = read_numa(Tree(captured("nvidiagpunumanodes")));
  ASSERT_EQ(nodes.size(), 2u);  // 250 to 255 are V100 memory, named in /proc/driver/nvidia/gpus/*/numa_status
  EXPECT_EQ(nodes[0].id, 0);
  EXPECT_EQ(nodes[0].memory_mib, 129839104u / 1024);
  EXPECT_EQ(nodes[1].id, 8);
}

TEST(Machine, NodesWithoutCpusAreListedWhenTheyAreOrdinaryMemory) {
  test::MadeUpTree tree;
  tree.file("sys/devices/system/node/online", "0-1\n");
  tree.file("sys/devices/system/node/node0/cpulist", "0-1\n");
  tree.file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        2048 kB\n");
  tree.file("sys/devices/system/node/node1/cpulist", "\n");
  tree.folder("sys/devices/system/node/node2");  // not online
  auto nodes = read_numa(Tree(tree.root()));
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].memory_mib, 2u);
  EXPECT_EQ(nodes[1].memory_mib, std::nullopt);
}

TEST(Machine, NothingReadableIsAnEmptyMachine) {
  test::MadeUpTree tree;
  EXPECT_EQ(SysfsTopology(tree.root()).read(), model::Machine{});
}

TEST(Machine, ThisOneHasPus) {
  model::Machine machine = SysfsTopology().read();
  EXPECT_EQ(static_cast<long>(machine.cpus.size()), ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_FALSE(machine.name.empty());
}

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

}  // namespace
}  // namespace thole::host
