#include "app/show/topo.hpp"

#include <gtest/gtest.h>

#include "support/machines.hpp"

namespace thole::app {
namespace {

using model::LinkKind;

Arrangement arranged(const model::Snapshot& snapshot) { return arrange(snapshot.machine, Joins(snapshot.machine)); }

// "0: 0 1+ib0 | 1: 2": node, then its clusters; '+' joins what shares a switch.
std::string text(const std::vector<Place>& places, const model::Machine& machine) {
  std::string all;
  for (const Place& place : places) {
    all += (all.empty() ? "" : " | ") + (place.numa ? std::to_string(*place.numa) : "?") + ":";
    for (const Cluster& cluster : place.clusters) {
      std::string members;
      for (const std::size_t gpu : cluster.gpus) members += (members.empty() ? "" : "+") + std::to_string(gpu);
      for (const std::size_t nic : cluster.nics) members += (members.empty() ? "" : "+") + machine.nics[nic].name;
      all += " " + members;
    }
  }
  return all;
}

model::Nic nic(std::string name, int bus, std::optional<int> numa) {
  model::Nic nic;
  nic.name = std::move(name);
  nic.pci = model::PciAddress{0, static_cast<std::uint8_t>(bus), 0, 0};
  nic.numa = numa;
  return nic;
}

TEST(Arrangement, PutsDevicesUnderTheirNodeAndJoinsThemByTheirSwitch) {
  model::Snapshot snapshot = test::machine({"abc", "d"});
  snapshot.machine.nics = {nic("ib0", 0x80, 0), nic("ib1", 0x81, 1)};
  snapshot.machine.gpus[0].links = {{*model::PciAddress::parse("0000:80:00.0"), LinkKind::pxb, {}, {}}};
  snapshot.machine.gpus[2].links = {{*model::PciAddress::parse("0000:80:00.0"), LinkKind::pix, {}, {}}};
  const Arrangement chart = arranged(snapshot);
  ASSERT_EQ(chart.packages.size(), 2u);
  EXPECT_EQ(text(chart.packages[0].places, snapshot.machine), "0: 0+2+ib0 1");
  EXPECT_EQ(chart.packages[0].places[0].clusters[0].kind, LinkKind::pxb) << "the farthest of its pairs";
  EXPECT_EQ(text(chart.packages[1].places, snapshot.machine), "1: 3 ib1");
  EXPECT_FALSE(chart.packages[1].places[0].clusters[0].kind);
  EXPECT_TRUE(chart.apart.empty());
}

TEST(Arrangement, GathersThreadsIntoCoresAndCoresByCache) {
  model::Snapshot snapshot;
  for (unsigned id = 0; id < 8; ++id)
    snapshot.machine.cpus.push_back(
        {.id = id, .core = static_cast<int>(id % 4), .l3 = static_cast<int>(id % 4 / 2), .numa = 0, .package = 0});
  const Place place = arranged(snapshot).packages.at(0).places.at(0);
  ASSERT_EQ(place.groups.size(), 2u);
  EXPECT_EQ(place.groups[1].cores.size(), 2u);
  EXPECT_EQ(place.groups[1].cores[0].to_string(), "2,6");
  EXPECT_TRUE(place.cores_told);
}

TEST(Arrangement, NodeThatIsNotKnownIsTheOneOfTheNearCpus) {
  model::Snapshot snapshot = test::machine({"ab", "c"});
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.numa.reset();
  snapshot.machine.gpus[0].near_cpus.node = model::CpuSet::parse("8-11");
  snapshot.machine.gpus[1].near_cpus.node = model::CpuSet::parse("4-11");  // of both nodes
  const Arrangement chart = arranged(snapshot);
  EXPECT_EQ(text(chart.packages[1].places, snapshot.machine), "1: 0");
  EXPECT_EQ(text(chart.apart, snapshot.machine), "?: 1 2");
}

TEST(Arrangement, OnAMachineOfOneNodeEverythingIsNearIt) {
  model::Snapshot snapshot = test::machine({"ab"});
  snapshot.machine.gpus[1].numa.reset();
  snapshot.machine.nics = {nic("eth0", 0x80, std::nullopt)};
  const Arrangement chart = arranged(snapshot);
  EXPECT_EQ(text(chart.packages[0].places, snapshot.machine), "0: 0 1 eth0");
}

TEST(Arrangement, NicWithoutANodeStandsWithTheGpuBehindItsSwitch) {
  model::Snapshot snapshot = test::machine({"a", "b"});
  snapshot.machine.nics = {nic("ib0", 0x80, std::nullopt), nic("eth0", 0x81, std::nullopt)};
  snapshot.machine.gpus[1].links = {{*model::PciAddress::parse("0000:80:00.0"), LinkKind::pix, {}, {}}};
  const Arrangement chart = arranged(snapshot);
  EXPECT_EQ(text(chart.packages[1].places, snapshot.machine), "1: 1+ib0");
  EXPECT_EQ(text(chart.apart, snapshot.machine), "?: eth0");
}

TEST(Arrangement, WhereNoNodeIsKnownThereIsAPlaceForEachDistinctSetOfNearCpus) {
  model::Snapshot snapshot = test::machine({"ab", "c"});
  snapshot.machine.numa.clear();
  for (model::Cpu& cpu : snapshot.machine.cpus) cpu.numa.reset(), cpu.package.reset();
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.numa.reset();
  for (const std::size_t gpu : {0, 1}) snapshot.machine.gpus[gpu].near_cpus.node = model::CpuSet::parse("0-3");
  snapshot.machine.gpus[2].near_cpus.node = model::CpuSet::parse("4-7");
  snapshot.machine.nics = {nic("ib0", 0x80, std::nullopt), nic("eth0", 0x81, std::nullopt)};
  snapshot.machine.gpus[2].links = {{*model::PciAddress::parse("0000:80:00.0"), LinkKind::node, {}, {}}};
  const Arrangement chart = arranged(snapshot);
  ASSERT_EQ(chart.packages.size(), 1u);
  const std::string drawn = text(chart.packages[0].places, snapshot.machine);
  EXPECT_TRUE(drawn.starts_with("?: 0 1 | ?: 2 ib0")) << drawn;
  EXPECT_EQ(text(chart.apart, snapshot.machine), "?: eth0");
}

TEST(Arrangement, NodesWithoutCpusAndNodesOfSeveralPackagesStandApart) {
  model::Snapshot snapshot = test::machine({"a", "b"});
  for (model::Cpu& cpu : snapshot.machine.cpus) cpu.numa = 0;
  snapshot.machine.numa = {{0, 1000}, {7, 2000}};
  snapshot.machine.gpus[1].numa = 7;
  const Arrangement chart = arranged(snapshot);
  EXPECT_EQ(chart.split, std::vector<int>{0});
  EXPECT_EQ(text(chart.packages[0].places, snapshot.machine), "0:");
  EXPECT_EQ(text(chart.apart, snapshot.machine), "0: 0 | 7: 1");
  EXPECT_EQ(chart.apart[1].memory_mib, 2000u);
}

TEST(Arrangement, LosesNothingWhereNothingIsKnown) {
  model::Snapshot snapshot = test::machine({"ab"});
  snapshot.machine.cpus.clear();
  snapshot.machine.numa.clear();
  snapshot.machine.gpus[0].numa = 3;
  snapshot.machine.gpus[1].numa.reset();
  snapshot.machine.gpus[1].pci.reset();
  const Arrangement chart = arranged(snapshot);
  EXPECT_TRUE(chart.packages.empty());
  EXPECT_EQ(text(chart.apart, snapshot.machine), "3: 0 | ?: 1");
}

}  // namespace
}  // namespace thole::app
