#include "app/show/joins.hpp"

#include <gtest/gtest.h>

#include "support/machines.hpp"

namespace thole::app {
namespace {

using model::LinkKind;

// GPUs "ab" on node 0, "cd" on node 1; a NIC near each node.
model::Snapshot lab() {
  model::Snapshot snapshot = test::machine({"ab", "cd"});
  for (int n : {0, 1}) {
    model::Nic nic;
    nic.name = n == 0 ? "ib0" : "ib1";
    nic.pci = model::PciAddress{0, static_cast<std::uint8_t>(0x80 + n), 0, 0};
    nic.numa = n;
    snapshot.machine.nics.push_back(std::move(nic));
  }
  return snapshot;
}

void reach(model::Snapshot& snapshot, std::size_t gpu, std::size_t nic, LinkKind kind) {
  snapshot.machine.gpus[gpu].links.push_back({*snapshot.machine.nics[nic].pci, kind, {}, {}});
}

constexpr std::size_t nic0 = 4, nic1 = 5;

TEST(Joins, SlowerEndCountsAndOneEndAloneIsBelieved) {
  model::Snapshot snapshot = lab();
  auto& gpus = snapshot.machine.gpus;
  gpus[0].links = {{*gpus[1].pci, LinkKind::nvlink, 4, {}}, {*gpus[2].pci, LinkKind::nvlink, 2, {}}};
  gpus[1].links = {{*gpus[0].pci, LinkKind::nvlink, 3, {}}};
  const Joins joins(snapshot.machine);
  EXPECT_EQ(joins.label(0, 1), "NV3");
  EXPECT_EQ(joins.label(1, 0), "NV3");
  EXPECT_EQ(joins.label(2, 0), "NV2");
}

TEST(Joins, FastLinkNamesAPairAndItsPcieStandsBeside) {
  model::Snapshot snapshot = lab();
  test::link(snapshot, 0, 1, LinkKind::pix);
  test::link(snapshot, 0, 1, LinkKind::nvlink, 1);
  test::link(snapshot, 2, 3, LinkKind::xgmi, {}, 15);
  test::link(snapshot, 0, 2, LinkKind::c2c);
  test::link(snapshot, 1, 3, LinkKind::nvswitch, 18);
  const Joins joins(snapshot.machine);
  EXPECT_EQ(joins.label(0, 1), "NV1");
  EXPECT_EQ(joins.between(1, 0).pcie, LinkKind::pix);
  EXPECT_EQ(joins.label(2, 3), "XGMI");
  EXPECT_EQ(joins.label(0, 2), "C2C");
  EXPECT_EQ(joins.label(1, 3), "NV18");
  EXPECT_EQ(joins.label(3, 3), "X");
}

TEST(Joins, WhatNobodyListsFollowsFromTheTreeOfPcie) {
  model::Snapshot snapshot = lab();
  model::Gpu e = snapshot.machine.gpus[1];
  e.pci->bus += 0x40;
  snapshot.machine.gpus.push_back(e);
  constexpr std::size_t of_node_0 = 4, ib0 = nic0 + 1, ib1 = nic1 + 1;
  reach(snapshot, 0, 0, LinkKind::pix);  // a and b are behind the switch of ib0 …
  reach(snapshot, 1, 0, LinkKind::pix);
  reach(snapshot, of_node_0, 0, LinkKind::phb);  // … e is beyond the bridge
  const Joins joins(snapshot.machine);
  EXPECT_EQ(joins.label(0, 1), "PIX");
  EXPECT_EQ(joins.label(0, of_node_0), "PHB");
  EXPECT_EQ(joins.label(2, 3), "NODE") << "of one node, and nothing else is told";
  EXPECT_EQ(joins.label(1, 3), "SYS") << "of two nodes";
  EXPECT_EQ(joins.label(ib0, ib1), "SYS");
}

TEST(Joins, WaysOfSeveralStepsAreAsLongAsTheirLongestStep) {
  model::Snapshot snapshot = lab();
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.numa.reset();
  auto& nics = snapshot.machine.nics;
  for (model::Nic& nic : nics) nic.numa.reset();
  nics[0].links = {{*nics[1].pci, LinkKind::phb, {}, {}}};
  reach(snapshot, 0, 0, LinkKind::pix);
  reach(snapshot, 3, 1, LinkKind::pxb);
  const Joins joins(snapshot.machine);
  EXPECT_EQ(joins.label(0, 3), "PHB");
  EXPECT_EQ(joins.label(0, 1), "N/A");
}

TEST(Joins, NicsMayListEachOther) {
  model::Snapshot snapshot = lab();
  auto& nics = snapshot.machine.nics;
  nics[0].links = {{*nics[1].pci, LinkKind::pxb, {}, {}}};
  EXPECT_EQ(Joins(snapshot.machine).label(nic1, nic0), "PXB");
}

TEST(Joins, WithoutAnyHintNothingIsMadeUp) {
  model::Snapshot snapshot = lab();
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.numa.reset();
  snapshot.machine.gpus[3].pci.reset();
  const Joins joins(snapshot.machine);
  EXPECT_EQ(joins.label(0, 1), "N/A");
  EXPECT_EQ(joins.label(3, nic0), "N/A");
}

TEST(Joins, FunctionsOfACardAndPartsOfAGpuAreNear) {
  model::Snapshot snapshot = lab();
  snapshot.machine.gpus[1].pci = snapshot.machine.gpus[0].pci;
  snapshot.machine.gpus[1].part = 1;
  snapshot.machine.nics[1].pci->bus = snapshot.machine.nics[0].pci->bus;
  snapshot.machine.nics[1].pci->function = 1;
  const Joins joins(snapshot.machine);
  EXPECT_TRUE(joins.between(0, 1).same);
  EXPECT_FALSE(joins.between(0, 2).same);
  EXPECT_FALSE(joins.between(nic0, nic1).same);
  EXPECT_EQ(joins.label(nic0, nic1), "PIX");
}

}  // namespace
}  // namespace thole::app
