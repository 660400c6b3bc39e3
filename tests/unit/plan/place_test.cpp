#include "plan/place/place.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/machines.hpp"

namespace thole::test {
namespace {

using model::LinkKind;

std::string placed(const model::Snapshot& snapshot, unsigned count, std::vector<std::size_t> free, model::Request request = {},
                   std::vector<std::size_t> last = {}) {
  request.gpus = count;
  const auto units = units_of(snapshot);
  std::vector<plan::Candidate> candidates;
  for (const std::size_t i : free) candidates.push_back({i, std::find(last.begin(), last.end(), i) != last.end()});
  const auto one = plan::place(request, snapshot, units, candidates);
  std::reverse(candidates.begin(), candidates.end());
  const auto other = plan::place(request, snapshot, units, candidates);
  EXPECT_EQ(one.has_value(), other.has_value());
  if (!one) return "none";
  EXPECT_EQ(one->units, other->units) << "the order of the candidates must not matter";
  return one->explain;
}

const std::vector<std::size_t> all8{0, 1, 2, 3, 4, 5, 6, 7};

// NVLink pairs (0,2) (1,3) (4,6) (5,7), PCIe otherwise.
model::Snapshot bridged() {
  model::Snapshot snapshot = machine({"abcd", "efgh"});
  for (const std::size_t base : {0, 4})
    for (const std::size_t i : {0, 1}) link(snapshot, base + i, base + i + 2, LinkKind::nvlink, 12);
  return snapshot;
}

// The cube mesh of a DGX-1V: doubled and single links.
model::Snapshot dgx1v() {
  model::Snapshot snapshot = machine({"abcd", "efgh"});
  const int links[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2}, {2, 6, 1},
                          {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (const auto& [a, b, n] : links) link(snapshot, a, b, LinkKind::nvlink, n);
  return snapshot;
}

TEST(Place, TheStrongestWeakestLink) {
  EXPECT_EQ(placed(bridged(), 2, all8), "0,2: NV12 pair on node 0; leaves three whole pairs free");
  EXPECT_EQ(placed(bridged(), 2, {1, 2, 3}), "1,3: NV12 pair on node 0; leaves one free");
  EXPECT_EQ(placed(bridged(), 4, all8), "0,1,2,3: weakest link NODE on node 0; leaves two whole pairs free");
  EXPECT_EQ(placed(dgx1v(), 2, all8), "0,3: NV2 pair on node 0; leaves six free");
  EXPECT_EQ(placed(dgx1v(), 4, all8), "0,1,2,3: weakest link NV1 on node 0; leaves four free");
}

TEST(Place, OneGpuTakesTheLeftover) {
  EXPECT_EQ(placed(bridged(), 1, {0, 1, 3, 4, 6}),
            "0: the least linked to the other free ones on node 0; leaves two whole pairs free");
  EXPECT_EQ(placed(bridged(), 1, {0, 2, 5, 4, 6}),
            "5: the least linked to the other free ones on node 1; leaves two whole pairs free");
  EXPECT_EQ(placed(bridged(), 1, {5}), "5: the only free one on node 1");
}

TEST(Place, WithoutFastLinksNearnessComesFirst) {
  model::Snapshot snapshot = machine({"ab", "cd"});
  link(snapshot, 1, 2, LinkKind::pix);         // a bridge across nodes: odd, but only PCIe
  EXPECT_EQ(placed(snapshot, 2, {0, 1, 2, 3}), "0,1: NODE pair on node 0; leaves two free");
  EXPECT_EQ(placed(snapshot, 2, {1, 2, 3}), "2,3: NODE pair on node 1; leaves one free");
  EXPECT_EQ(placed(snapshot, 3, {0, 1, 2, 3}), "0,1,2: weakest link SYS across nodes 0,1; leaves one free");
}

TEST(Place, NvswitchJoinsAllAlike) {
  model::Snapshot snapshot = machine({"abcd", "efgh"});
  for (std::size_t i = 0; i < 8; ++i)
    snapshot.machine.gpus[i].links.push_back({*model::PciAddress::parse("0000:c4:00.0"), LinkKind::nvswitch, 12, {}});
  EXPECT_EQ(placed(snapshot, 4, {0, 2, 4, 5, 6, 7}), "4,5,6,7: all joined by NV12 on node 1; leaves two free");
}

TEST(Place, XgmiByWeight) {
  model::Snapshot snapshot = machine({"abc"});
  link(snapshot, 0, 1, LinkKind::xgmi, 1, 30);
  link(snapshot, 1, 2, LinkKind::xgmi, 1, 15);
  EXPECT_EQ(placed(snapshot, 2, {0, 1, 2}), "1,2: XGMI pair on node 0; leaves one free");
}

TEST(Place, TheSlowerEndOfALinkCounts) {
  model::Snapshot snapshot = machine({"abcd"});
  link(snapshot, 0, 1, LinkKind::nvlink, 4);
  snapshot.machine.gpus[0].links[0].count = 1;   // its other end says 4
  link(snapshot, 2, 3, LinkKind::nvlink, 2);
  EXPECT_EQ(placed(snapshot, 2, {0, 1, 2, 3}), "2,3: NV2 pair on node 0; leaves one whole pair free");
}

TEST(Place, DisplaysAndInstancesComeLast) {
  EXPECT_EQ(placed(machine({"abc"}), 1, {0, 1, 2}, {}, {0}), "1: first of equals on node 0; leaves two free");
  EXPECT_EQ(placed(machine({"ab"}), 2, {0, 1}, {}, {0}),
            "0,1: all that are free, NODE pair on node 0; one drives a display or has graphics");
  model::Snapshot parts = machine({"abc"});
  partition(parts, 0, {"3g.40gb", "3g.40gb"});
  partition(parts, 1, {"3g.40gb", "3g.40gb"});
  EXPECT_EQ(placed(parts, 1, {0, 1, 2, 3, 4}),
            "2: the least linked to the other free ones on node 0; leaves two whole GPUs free");
  EXPECT_EQ(placed(parts, 1, {0, 1, 3}), "1:1: the least linked to the other free ones on node 0; leaves one whole GPU free")
      << "a GPU that is begun is used up first";
}

TEST(Place, OtherOrders) {
  model::Snapshot snapshot = machine({"abcd"});
  auto& gpus = snapshot.machine.gpus;
  const double load[] = {30, 10, 20, 40};
  const std::uint64_t used[] = {100, 300, 200, 50};
  for (std::size_t i = 0; i < 4; ++i) {
    gpus[i].use.utilization_percent = load[i];
    gpus[i].use.memory_used_mib = used[i];
  }
  const auto by = [](model::Pick pick, std::uint64_t seed = 0) { model::Request r; r.pick = pick; r.seed = seed; return r; };
  const std::vector<std::size_t> all{0, 1, 2, 3};
  EXPECT_EQ(placed(snapshot, 2, all, by(model::Pick::first)), "0,1: first in PCI order on node 0");
  EXPECT_EQ(placed(snapshot, 2, all, by(model::Pick::last)), "2,3: last in PCI order on node 0");
  EXPECT_EQ(placed(snapshot, 2, all, by(model::Pick::load)), "1,2: least load on node 0");
  EXPECT_EQ(placed(snapshot, 2, all, by(model::Pick::memory)), "0,3: least memory in use on node 0");
  EXPECT_EQ(placed(snapshot, 1, all, by(model::Pick::first), {0}), "1: first in PCI order on node 0");
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    seen.insert(placed(snapshot, 1, all, by(model::Pick::random, seed)).substr(0, 1));
  EXPECT_EQ(seen.size(), 4u) << "every GPU has its chance";
}

TEST(Place, TheShapeSaysWhichLinksCount) {
  // A chain of strong links against a triangle of weak ones: the chain has the larger sum, the triangle the stronger weakest
  // link.
  model::Snapshot snapshot = machine({"abcdef"});
  link(snapshot, 0, 1, LinkKind::nvlink, 8);
  link(snapshot, 1, 2, LinkKind::nvlink, 8);
  link(snapshot, 3, 4, LinkKind::nvlink, 2);
  link(snapshot, 4, 5, LinkKind::nvlink, 2);
  link(snapshot, 3, 5, LinkKind::nvlink, 2);
  const auto shaped = [](model::Shape shape) { model::Request r; r.shape = shape; return r; };
  const std::vector<std::size_t> all{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(placed(snapshot, 3, all), "3,4,5: all joined by NV2 on node 0; leaves one whole group free");
  EXPECT_EQ(placed(snapshot, 3, all, shaped(model::Shape::pairwise)),
            "0,1,2: weakest link NODE on node 0; leaves one whole group free");
  EXPECT_EQ(placed(snapshot, 2, all, shaped(model::Shape::independent)),
            "3,4: independent, few links lost to others on node 0; leaves one whole group free");
}

TEST(Place, TheUsersOrderComesBeforeAllElse) {
  model::Request request;
  request.order = {"6", "2", "0"};
  EXPECT_EQ(placed(bridged(), 2, all8, request), "2,6: first in your order across nodes 0,1");
  EXPECT_EQ(placed(bridged(), 4, {0, 1, 3, 5, 6, 7}, request), "0,1,3,6: first in your order across nodes 0,1")
      << "then PCI order";
}

TEST(Place, FreeGpusThatAreNotForThisRequestAreLeftWholeToo) {
  const auto snapshot = bridged();
  const auto units = units_of(snapshot);
  model::Request request;
  std::vector<plan::Candidate> candidates{{0}, {1}, {2, false, false}};
  EXPECT_EQ(plan::place(request, snapshot, units, candidates)->units, std::vector<std::size_t>{1}) << "0 and 2 stay a pair";
}

TEST(Place, TooFewIsNothingAndNoneIsEmpty) {
  EXPECT_EQ(placed(machine({"ab"}), 3, {0, 1}), "none");
  EXPECT_EQ(placed(machine({"ab"}), 0, {0, 1}), "");
}

TEST(Place, AllSetsAreComparedWhileThereAreAtMostTwoHundredThousand) {
  model::Snapshot snapshot = machine({"abcdefghijkl", "mnopqrstuvwx"});
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < 24; ++i) all.push_back(i);
  for (std::size_t i = 0; i < 24; i += 2) link(snapshot, i, i + 1, LinkKind::nvlink, 4);
  const std::string unproven = "; not proven best, there are too many sets to compare";
  EXPECT_EQ(placed(snapshot, 2, all), "0,1: NV4 pair on node 0; leaves 11 whole pairs free");
  EXPECT_EQ(placed(snapshot, 6, all), "0,1,2,3,4,5: weakest link NODE on node 0; leaves nine whole pairs free")
      << "134,596 sets";
  EXPECT_EQ(placed(snapshot, 18, all).find(unproven), std::string::npos) << "as many";
  EXPECT_EQ(placed(snapshot, 12, all),
            "0,1,2,3,4,5,6,7,8,9,10,11: weakest link NODE on node 0; leaves six whole pairs free" + unproven);
}

TEST(Place, WhatMustBeInTheSetIs) {
  const auto snapshot = bridged();  // pairs 0-2, 1-3, 4-6, 5-7
  const auto units = units_of(snapshot);
  const auto chosen = [&](unsigned count, std::vector<plan::Candidate> candidates, model::Request request = {}) {
    request.gpus = count;
    const auto placement = plan::place(request, snapshot, units, candidates);
    return placement ? placement->units : std::vector<std::size_t>{};
  };
  using Set = std::vector<std::size_t>;
  const plan::Candidate a{0}, c{2}, d{3}, e{4}, must_b{1, false, true, true}, must_e{4, false, true, true};
  EXPECT_EQ(chosen(2, {a, must_b, c, d, e}), (Set{1, 3})) << "the best pair with 1 in it, and not the first pair";
  EXPECT_EQ(chosen(2, {a, must_b, c, d, must_e}), (Set{1, 4}));
  EXPECT_EQ(chosen(3, {a, must_b, c, d, e}), (Set{0, 1, 2})) << "the first of equals";
  EXPECT_EQ(chosen(1, {a, must_b, c, d, must_e}), Set{}) << "more than are asked for";
  model::Request last;
  last.pick = model::Pick::last;
  EXPECT_EQ(chosen(2, {a, must_b, c, d, e}, last), (Set{1, 4})) << "in every order";
}

TEST(Place, WhatMustBeInTheSetIsAlsoWhereNotAllSetsAreCompared) {
  model::Snapshot snapshot = machine({"abcdefghijklmnopqrstuvwxyzABCDEF"});
  for (std::size_t i = 0; i < 32; i += 2) link(snapshot, i, i + 1, LinkKind::nvlink, 4);
  std::vector<plan::Candidate> candidates;
  for (std::size_t i = 0; i < 32; ++i) candidates.push_back({i, false, true, i == 20 || i == 31});
  model::Request request;
  request.gpus = 12;
  const auto placement = plan::place(request, snapshot, units_of(snapshot), candidates);
  ASSERT_TRUE(placement && !placement->exact);
  for (const std::size_t unit : {20, 21, 30, 31})
    EXPECT_TRUE(std::binary_search(placement->units.begin(), placement->units.end(), unit)) << unit;
}

TEST(Place, TheReasonDoesNotCallAGpuTheOnlyFreeOneBesideOthersThatDoNotFit) {
  const auto snapshot = machine({"ab"});
  model::Request request;
  std::vector<plan::Candidate> candidates{{0, false, false}, {1}};
  EXPECT_EQ(plan::place(request, snapshot, units_of(snapshot), candidates)->explain,
            "1: the only free one that would do on node 0");
}

}  // namespace
}  // namespace thole::test
