#include "host/pci/devices.hpp"

#include <gtest/gtest.h>

#include "topologies/captured.hpp"

namespace thole::host {
namespace {

using model::CpuSet;
using model::LinkKind;

model::PciAddress address_of(const char* text) { return *model::PciAddress::parse(text); }

// Two packages; under the first a switch with two GPUs, a second switch below it, and a GPU on a port of its own.
class Links : public ::testing::Test {
 protected:
  Links() {
    const std::string root_port = "pci0000:00/0000:00:01.0", upstream = root_port + "/0000:01:00.0";
    bridge(root_port, "0x8086");
    bridge(upstream, "0x10b5");
    for (const char* port : {"08", "10", "18"}) bridge(upstream + "/0000:02:" + port + ".0", "0x10b5");
    const std::string inner = upstream + "/0000:02:18.0/0000:05:00.0";
    bridge(inner, "0x10b5");
    bridge(inner + "/0000:06:00.0", "0x10b5");
    tree.pci(upstream + "/0000:02:08.0", "0000:03:00.0", "0x10de", "0x20b0", "0x030200");
    tree.pci(upstream + "/0000:02:10.0", "0000:04:00.0", "0x10de", "0x20b0", "0x030200");
    tree.pci(inner + "/0000:06:00.0", "0000:07:00.0", "0x10de", "0x20b0", "0x030200");
    bridge("pci0000:00/0000:00:02.0", "0x8086");
    tree.pci("pci0000:00/0000:00:02.0", "0000:08:00.0", "0x10de", "0x20b0", "0x030200");
    bridge("pci0000:40/0000:40:01.0", "0x8086");
    tree.pci("pci0000:40/0000:40:01.0", "0000:41:00.0", "0x10de", "0x20b0", "0x030200");
    bridge("pci0000:80/0000:80:01.0", "0x8086");
    tree.pci("pci0000:80/0000:80:01.0", "0000:81:00.0", "0x10de", "0x20b0", "0x030200", "1", "4-7");
  }

  void bridge(const std::string& path, const std::string& maker) {
    auto slash = path.rfind('/');
    tree.pci(path.substr(0, slash), path.substr(slash + 1), maker, "0x8747", "0x060400");
  }
  LinkKind between(const char* a, const char* b) {
    Tree files(tree.root());
    return pci_link(*pci_device(files, address_of(a)), *pci_device(files, address_of(b)));
  }

  test::MadeUpTree tree;
};

TEST_F(Links, AreNamedAsNvidiaSmiNamesThem) {
  struct Case {
    const char *a, *b;
    LinkKind kind;
  };
  for (const Case& c : {Case{"03:00.0", "04:00.0", LinkKind::pix},   // two ports of one switch
                        Case{"03:00.0", "07:00.0", LinkKind::pxb},   // a switch below a switch
                        Case{"03:00.0", "08:00.0", LinkKind::phb},   // two root ports of one host bridge
                        Case{"03:00.0", "41:00.0", LinkKind::node},  // two host bridges of one memory node
                        Case{"03:00.0", "81:00.0", LinkKind::sys}}) {
    EXPECT_EQ(between(c.a, c.b), c.kind) << c.a << " " << c.b;
    EXPECT_EQ(between(c.b, c.a), c.kind) << c.b << " " << c.a;
  }
}

TEST_F(Links, IgnoreTheBridgesOnACard) {
  // Two AMD cards on one switch: each has an upstream and a downstream port of its own above the GPU.
  const std::string upstream = "pci0000:c0/0000:c0:01.0/0000:c1:00.0";
  bridge("pci0000:c0/0000:c0:01.0", "0x1022");
  bridge(upstream, "0x1000");
  for (const auto& [port, first, second, gpu] : {std::array{"00", "c3", "c4", "c5"}, std::array{"01", "c6", "c7", "c8"}}) {
    std::string path = upstream + "/0000:c2:" + port + ".0";
    bridge(path, "0x1000");
    path += std::string("/0000:") + first + ":00.0";
    bridge(path, "0x1002");
    path += std::string("/0000:") + second + ":00.0";
    bridge(path, "0x1002");
    tree.pci(path, std::string("0000:") + gpu + ":00.0", "0x1002", "0x740f", "0x038000");
  }
  EXPECT_EQ(between("c5:00.0", "c8:00.0"), LinkKind::pix);
}

TEST_F(Links, ArePciBesideNvlink) {
  model::Machine machine;
  for (const char* address : {"03:00.0", "04:00.0", "81:00.0"}) machine.gpus.emplace_back().pci = address_of(address);
  machine.nics.emplace_back().pci = address_of("08:00.0");
  machine.gpus[0].links.emplace_back().to = address_of("04:00.0");
  machine.gpus[0].links[0].kind = LinkKind::nvlink;
  PciDevices devices;
  for (const char* address : {"03:00.0", "04:00.0", "81:00.0", "08:00.0", "41:00.0"})  // the last is none of this machine's
    devices.emplace(address_of(address), *pci_device(Tree(tree.root()), address_of(address)));
  const std::multimap<std::string, LinkKind> expected{{"0000:04:00.0", LinkKind::nvlink},
                                                      {"0000:04:00.0", LinkKind::pix},
                                                      {"0000:81:00.0", LinkKind::sys},
                                                      {"0000:08:00.0", LinkKind::phb}};
  for (int again = 0; again < 2; ++again) {
    link(devices, machine);
    std::multimap<std::string, LinkKind> kinds;
    for (const model::Link& l : machine.gpus[0].links) kinds.emplace(l.to.to_string(), l.kind);
    EXPECT_EQ(kinds, expected);
  }
}

TEST_F(Links, ArePciBetweenNicsToo) {
  model::Machine machine;
  PciDevices devices;
  for (const char* address : {"03:00.0", "04:00.0", "81:00.0"}) {
    machine.nics.emplace_back().pci = address_of(address);
    devices.emplace(address_of(address), *pci_device(Tree(tree.root()), address_of(address)));
  }
  machine.nics.emplace_back();  // one without an address
  for (int again = 0; again < 2; ++again) {
    link(devices, machine);
    ASSERT_EQ(machine.nics[0].links.size(), 2u);
    EXPECT_EQ(machine.nics[0].links[0], (model::Link{address_of("04:00.0"), LinkKind::pix, {}, {}}));
    EXPECT_EQ(machine.nics[0].links[1], (model::Link{address_of("81:00.0"), LinkKind::sys, {}, {}}));
    EXPECT_TRUE(machine.nics[3].links.empty());
  }
}

TEST_F(Links, GpusAreFoundByVendorInPciOrder) {
  tree.pci("pci0000:80/0000:80:01.0", "0000:82:00.0", "0x10de", "0x1234", "0x020000");  // not a GPU
  tree.pci("pci0000:80/0000:80:01.0", "0000:09:00.0", "0x1002", "0x74a1", "0x120000");  // an accelerator
  std::vector<std::string> found;
  for (const PciDevice& device : pci_gpus(Tree(tree.root()), model::Vendor::nvidia))
    found.push_back(device.address.to_string());
  EXPECT_EQ(found, (std::vector<std::string>{"0000:03:00.0", "0000:04:00.0", "0000:07:00.0", "0000:08:00.0", "0000:41:00.0",
                                             "0000:81:00.0"}));
  EXPECT_EQ(pci_gpus(Tree(tree.root()), model::Vendor::amd).size(), 1u);
  EXPECT_TRUE(pci_gpus(Tree(tree.root()), model::Vendor::intel).empty());
}

TEST(PciDevice, IsReadWithWhateverAttributesThereAre) {
  test::MadeUpTree tree;
  tree.folder("sys/bus/pci/devices/0000:01:00.0");
  auto device = pci_device(Tree(tree.root()), address_of("01:00.0"));
  ASSERT_TRUE(device);
  EXPECT_FALSE(device->vendor || device->class_code || device->numa || device->local_cpus);
  EXPECT_EQ(device->host_bridge, "");
  EXPECT_EQ(pci_link(*device, *device), LinkKind::sys);
  EXPECT_FALSE(pci_device(Tree(tree.root()), address_of("02:00.0")));
}

TEST(PciDevice, UnknownNodeIsAbsentNotMinusOne) {
  Tree tree(test::captured_tree("hwloc/40intel64-2g2n4c+pci.tar.gz").string() + "/40intel64-2g2n4c+pci");
  auto nic = pci_device(tree, address_of("02:00.0"));
  ASSERT_TRUE(nic);
  EXPECT_FALSE(nic->numa);
  EXPECT_EQ(nic->local_cpus, CpuSet::parse("0-39"));
  EXPECT_EQ(nic->host_bridge, "pci0000:00");
  EXPECT_EQ(nic->bridges, std::vector{address_of("00:05.0")});
}

TEST(PciDevice, LinksOnACapturedXeon) {
  Tree tree(test::captured_tree("hwloc/40intel64-2g2n4c+pci.tar.gz").string() + "/40intel64-2g2n4c+pci");
  auto link_of = [&](const char* a, const char* b) {
    return pci_link(*pci_device(tree, address_of(a)), *pci_device(tree, address_of(b)));
  };
  EXPECT_EQ(link_of("02:00.0", "02:00.1"), LinkKind::pix);   // two functions of one card
  EXPECT_EQ(link_of("02:00.0", "03:00.0"), LinkKind::phb);   // two root ports
  EXPECT_EQ(link_of("02:00.0", "43:00.0"), LinkKind::sys);   // another host bridge; the firmware gives a node for it only
}

TEST(PciDevice, CpuMaskServesWhereThereIsNoList) {
  Tree tree(test::captured_tree("hwloc/nvidiagpunumanodes.tar.gz").string() + "/nvidiagpunumanodes");
  auto gpu = pci_device(tree, address_of("0035:05:00.0"));
  ASSERT_TRUE(gpu && gpu->local_cpus);
  EXPECT_EQ(*gpu->local_cpus, CpuSet::parse("88-103"));
}

TEST(PciDevice, WithoutNearCpusThereAreNoneOnlyWhileSomeAreOffline) {
  test::MadeUpTree tree;
  tree.pci("pci0000:60", "0000:61:00.0", "0x10de", "0x20b2", "0x030200", "2", "");
  tree.file("sys/devices/system/cpu/present", "0-15\n");
  tree.file("sys/devices/system/cpu/online", "0-15\n");
  EXPECT_FALSE(pci_device(Tree(tree.root()), address_of("61:00.0"))->local_cpus) << "a node of memory only says nothing";
  tree.file("sys/devices/system/cpu/online", "0-7,12-15\n");
  const auto device = pci_device(Tree(tree.root()), address_of("61:00.0"));
  ASSERT_TRUE(device->local_cpus);
  EXPECT_TRUE(device->local_cpus->empty());
  std::vector<model::Cpu> cpus(8);
  for (unsigned i = 0; i < cpus.size(); ++i) cpus[i].id = i, cpus[i].numa = static_cast<int>(i / 4);
  EXPECT_EQ(near_cpus(*device, cpus).node, CpuSet());
  cpus.back().numa = 2;                        // one of its node came back since the list was read
  EXPECT_EQ(near_cpus(*device, cpus).node, CpuSet::parse("7"));
}

TEST(NearCpus, PackageIsAllCpusOfThePackagesOfTheLocalOnes) {
  std::vector<model::Cpu> cpus(12);
  for (unsigned i = 0; i < cpus.size(); ++i) {
    cpus[i].id = i;
    cpus[i].package = static_cast<int>(i / 6);
    cpus[i].numa = static_cast<int>(i / 3);
  }
  PciDevice device;
  device.local_cpus = CpuSet::parse("3-5");
  EXPECT_EQ(near_cpus(device, cpus).node, CpuSet::parse("3-5"));
  EXPECT_EQ(near_cpus(device, cpus).package, CpuSet::parse("0-5"));
  device.local_cpus.reset();
  EXPECT_FALSE(near_cpus(device, cpus).node);
  EXPECT_FALSE(near_cpus(device, cpus).package);
  device.numa = 3;
  EXPECT_EQ(near_cpus(device, cpus).node, CpuSet::parse("9-11"));
  EXPECT_EQ(near_cpus(device, cpus).package, CpuSet::parse("6-11"));
}

TEST(CpuMask, IsReadHighestWordFirst) {
  EXPECT_EQ(parse_cpu_mask("00000001,80000000"), CpuSet::parse("31-32"));
  EXPECT_EQ(parse_cpu_mask("f"), CpuSet::parse("0-3"));
  for (const char* bad : {"", "g", "1,,2", "100000000", "-1", "1, 2"}) EXPECT_FALSE(parse_cpu_mask(bad)) << bad;
}

}  // namespace
}  // namespace thole::host
