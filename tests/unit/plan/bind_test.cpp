#include "plan/bind/bind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/bound.hpp"
#include "support/boxes.hpp"

namespace thole::test {
namespace {

using model::BindMode;
using model::BindOptions;
using model::BindRefusal;
using model::BindRequest;
using model::BindingPlan;
using model::CpuSet;
using model::Machine;
using testing::ElementsAre;
using testing::HasSubstr;
using Ranks = std::vector<std::vector<std::size_t>>;

BindRequest request(BindMode mode, Ranks ranks) {
  BindRequest request;
  request.options.mode = mode;
  request.ranks = std::move(ranks);
  return request;
}

std::vector<std::string> cpus(const Machine& machine, const BindRequest& request) {
  std::vector<std::string> all;
  for (const model::RankPlan& rank : planned(machine, request).ranks) {
    all.push_back(rank.bound ? rank.cpus.to_string() : "not bound");
    if (rank.degraded) all.back() += "!";
    EXPECT_NE(rank.why, "");
  }
  return all;
}

TEST(Bind, NodeIsTheNodeOfTheGpuAndSeveralGpusTheUnion) {
  const Machine machine = box({.packages = 2}, {0, 0, 1, 1});
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}, {3}, {1, 2}, {2, 2}})), ElementsAre("0-3", "4-7", "0-7", "4-7"));
}

TEST(Bind, NoneAndNoGpuAreNotBound) {
  const Machine machine = box({}, {0});
  EXPECT_THAT(cpus(machine, request(BindMode::none, {{0}})), ElementsAre("not bound"));
  for (const BindMode mode : {BindMode::node, BindMode::package, BindMode::exclusive, BindMode::l3, BindMode::core})
    EXPECT_THAT(cpus(machine, request(mode, {{}})), ElementsAre("not bound"));
}

TEST(Bind, PackageIsAllNodesOfThePackage) {
  EXPECT_THAT(cpus(box({.packages = 2, .nodes = 2}, {1, 2}), request(BindMode::package, {{0}, {1}})),
              ElementsAre("0-7", "8-15"));
}

TEST(Bind, ExclusiveDividesTheNodeAndLowerGpusGetTheRemainder) {
  const Machine machine = box({.cores = 10, .threads = 2}, {0, 0, 0, 0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}, {2}, {3}})),
              ElementsAre("0-2,10-12", "3-5,13-15", "6,7,16,17", "8,9,18,19"));
}

TEST(Bind, ExclusiveCountsGpusThatAreNotInTheRequest) {
  const Machine machine = box({.cores = 8}, {0, 0, 0, 0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{2}})), ElementsAre("4,5"));
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{3}, {0, 1}})), ElementsAre("6,7", "0-3"));
}

TEST(Bind, CoresAreWholeAtAnyWidth) {
  for (const int threads : {1, 2, 4, 8}) {
    const Machine machine = box({.cores = 4, .threads = threads}, {0, 0});
    BindRequest asked = request(BindMode::exclusive, {{0}, {1}});
    const BindingPlan all = planned(machine, asked);
    EXPECT_EQ(all.ranks[0].cpus.size(), 2u * threads);
    EXPECT_EQ(all.ranks[0].cores, 2u);
    asked.options.smt = model::Smt::one;
    EXPECT_THAT(cpus(machine, asked), ElementsAre("0,1", "2,3"));
  }
}

TEST(Bind, OnlyAllowedThreadsOfACoreAndSmtOneTakesTheLowestOfThem) {
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}});
  asked.allowed = CpuSet::parse("1,4-7");      // of core 0 only its second thread
  const Machine machine = box({.cores = 4, .threads = 2}, {0, 0});
  EXPECT_THAT(cpus(machine, asked), ElementsAre("1,4,5", "6,7"));
  asked.options.smt = model::Smt::one;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("1,4", "6,7"));
}

TEST(Bind, BalancedGivesEveryGpuWhatThePoorestHas) {
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}, {2}});
  asked.options.balanced = true;
  EXPECT_THAT(cpus(box({.packages = 2, .cores = 6}, {0, 0, 1}), asked), ElementsAre("0-2", "3-5", "6-8"));
}

TEST(Bind, LendGivesCoresNearNoGpuToTheGpusOfThePackage) {
  const Machine machine = box({.packages = 2, .nodes = 2, .cores = 4}, {1, 1, 3});
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}, {2}});
  EXPECT_THAT(cpus(machine, asked), ElementsAre("4,5", "6,7", "12-15"));
  asked.options.lend = true;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,1,4,5", "2,3,6,7", "8-15"));
  EXPECT_THAT(planned(machine, asked).ranks[0].why, HasSubstr("2 lent from where no GPU is"));
}

TEST(Bind, LendGivesAPackageWithoutGpusToAll) {
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}});
  asked.options.lend = true;
  EXPECT_THAT(cpus(box({.packages = 2}, {0, 0}), asked), ElementsAre("0,1,4,5", "2,3,6,7"));
}

TEST(Bind, ReservedCoresGoToNobody) {
  const Machine machine = box({.cores = 8, .threads = 2, .l3 = 4}, {0, 0});
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}});
  asked.options.reserve = *CpuSet::parse("9");  // the second thread of core 1 reserves the core
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,2-4,8,10-12", "5-7,13-15"));
  asked.options.reserve = model::FirstOfL3{};
  EXPECT_THAT(cpus(machine, asked), ElementsAre("1-3,9-11", "5-7,13-15"));
}

TEST(Bind, AReserveThatCannotBeKeptIsSaid) {
  Machine machine = box({}, {0});
  BindRequest asked = request(BindMode::node, {{0}});
  asked.options.reserve = *CpuSet::parse("0-3");
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0-3!"));
  EXPECT_THAT(planned(machine, asked).ranks[0].why, HasSubstr("every allowed core is reserved"));
  for (model::Cpu& cpu : machine.cpus) cpu.l3.reset();
  asked.options.reserve = model::FirstOfL3{};
  EXPECT_THAT(planned(machine, asked).ranks[0].why, HasSubstr("L3 caches are not known"));
}

TEST(Bind, SeveralRanksCutTheCoresOfTheirGpu) {
  const Machine machine = box({.cores = 10}, {0, 0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {0}, {1}})), ElementsAre("0-2", "3,4", "5-9"));
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}, {0}})), ElementsAre("0-9", "0-9")) << "a node is nobody's own";
}

TEST(Bind, MoreRanksThanCoresShareThem) {
  const Machine machine = box({.cores = 2}, {0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {0}, {0}})), ElementsAre("0!", "1!", "0!"));
}

TEST(Bind, FewerNearCoresThanGpusShareNearOnesAndNeverTakeAFarOne) {
  const Machine machine = box({.nodes = 2, .cores = 2}, {0, 0, 0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}, {2}})), ElementsAre("0!", "1", "0!"));
  EXPECT_EQ(planned(machine, request(BindMode::exclusive, {{2}})).ranks[0].why,
            "node 0: 1 of 2 cores, divided among GPUs 0,1,2 (fewer near cores than GPUs: GPUs 0,2 share one)");
  const Machine eight = box({.nodes = 2, .cores = 3}, {0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_THAT(cpus(eight, request(BindMode::exclusive, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}})),
              ElementsAre("0!", "1!", "2!", "0!", "1!", "2!", "0!", "1!")) << "evenly";
}

TEST(Bind, NobodySharesACoreWhileEachCanHaveOne) {
  Machine machine = box({.cores = 3}, {0, 0, 0});   // near: 0 or 1; 0; 1 or 2
  machine.gpus[0].near_cpus.node = CpuSet::parse("0,1");
  machine.gpus[1].near_cpus.node = CpuSet::parse("0");
  machine.gpus[2].near_cpus.node = CpuSet::parse("1,2");
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}, {2}})), ElementsAre("1", "0", "2"));
}

TEST(Bind, WhereNothingNearIsAllowedItWidensAndSaysSo) {
  const Machine machine = box({.packages = 2, .nodes = 2, .cores = 2}, {0, 2});
  BindRequest asked = request(BindMode::node, {{0}});
  asked.allowed = CpuSet::parse("2-7");
  EXPECT_THAT(cpus(machine, asked), ElementsAre("2,3!"));
  EXPECT_EQ(planned(machine, asked).ranks[0].why, "node 1 (no CPU near GPU 0 (0,1) is allowed)");
  asked.allowed = CpuSet::parse("6,7");
  EXPECT_THAT(cpus(machine, asked), ElementsAre("6,7!"));
  asked.options.mode = BindMode::exclusive;
  asked.ranks = {{0}, {1}};
  EXPECT_THAT(cpus(machine, asked), ElementsAre("6!", "7!")) << "whoever has no core near claims wider, and all divide";
}

TEST(Bind, StrictRefusesAndNamesTheRank) {
  BindRequest asked = request(BindMode::node, {{0}, {1}});
  asked.allowed = CpuSet::parse("0-3");
  asked.options.strict = true;
  const auto answer = plan::bind(box({.packages = 2}, {0, 1}), asked);
  ASSERT_TRUE(std::holds_alternative<BindRefusal>(answer));
  EXPECT_EQ(std::get<BindRefusal>(answer).rank, 1u);
  EXPECT_THAT(std::get<BindRefusal>(answer).message, HasSubstr("no CPU near GPU 1 (4-7) is allowed"));
}

TEST(Bind, NothingAllowedOnlineLeavesTheMaskAlone) {
  BindRequest asked = request(BindMode::exclusive, {{0}});
  asked.allowed = CpuSet::parse("99");
  EXPECT_THAT(cpus(box({}, {0}), asked), ElementsAre("not bound!"));
  asked.options.strict = true;
  EXPECT_TRUE(std::holds_alternative<BindRefusal>(plan::bind(box({}, {0}), asked)));
}

TEST(Bind, AnUnknownNodeIsUnknownAndNotNodeZero) {
  EXPECT_THAT(cpus(box({.packages = 2}, {std::nullopt}), request(BindMode::node, {{0}})), ElementsAre("0-7!"));
  EXPECT_THAT(cpus(box({}, {std::nullopt, std::nullopt}), request(BindMode::exclusive, {{0}, {1}})), ElementsAre("0,1", "2,3"))
      << "where there is one node, nothing is uncertain";
}

TEST(Bind, ANodeWithoutCpusSaysNothingAboutNearness) {
  Machine machine = box({.packages = 2}, {252, 253});  // a GPU's own memory is its node
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}})), ElementsAre("0-7!"));
  machine.gpus[0].near_cpus.node = CpuSet::parse("4-7");
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}})), ElementsAre("4-7"));
  machine.gpus[0].near_cpus.node = CpuSet();
  machine.gpus[0].near_cpus.package = CpuSet::parse("0-3");
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}})), ElementsAre("0-3!")) << "known to be none";
  machine.gpus[0].near_cpus.node.reset();
  machine.gpus[0].numa.reset();
  EXPECT_THAT(cpus(machine, request(BindMode::node, {{0}})), ElementsAre("0-3"))
      << "the package is all that is said to be near";
}

TEST(Bind, AMachineWithoutKnownCpus) {
  Machine machine = box({}, {0, 0});
  machine.cpus.clear();
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}})), ElementsAre("not bound!"));
  for (model::Gpu& gpu : machine.gpus) gpu.near_cpus.node = CpuSet::parse("0-3");
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}})), ElementsAre("0,1", "2,3"));
}

TEST(Bind, OverlappingNearSetsGiveFirstToWhoHasNoOther) {
  Machine machine = box({.cores = 8}, {0, 0});
  machine.gpus[0].near_cpus.node = CpuSet::parse("0-5");
  machine.gpus[1].near_cpus.node = CpuSet::parse("4-7");
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}})), ElementsAre("0-3", "4-7"));
}

TEST(Bind, BigAndSmallCoresAreDividedApart) {
  Machine machine = box({.cores = 8}, {0, 0});       // cores 0-3 big with two threads, 4-7 small
  for (unsigned id = 8; id < 12; ++id)
    machine.cpus.push_back({.id = id, .core = static_cast<int>(id - 8), .l3 = 0, .numa = 0, .package = 0});
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0}, {1}})), ElementsAre("0,1,4,5,8,9", "2,3,6,7,10,11"));
  EXPECT_THAT(cpus(machine, request(BindMode::exclusive, {{0, 1}, {1}})), ElementsAre("0-2,4-6,8-10", "3,7,11"));
}

TEST(Bind, TheDefaultWidensACrowdedNode) {
  BindRequest asked = request(BindMode::node, {{0}});
  asked.options = BindOptions::for_command();
  const Machine dgx = box({.packages = 2, .nodes = 2, .cores = 4}, {1, 1, 3, 3});  // half of the nodes without GPUs
  EXPECT_THAT(cpus(dgx, asked), ElementsAre("0-7"));
  EXPECT_EQ(planned(dgx, asked).ranks[0].why, "package 0: node 1 has 4 cores for 2 GPUs, less than the machine's 16 for 4");
  EXPECT_THAT(cpus(box({.packages = 2, .nodes = 2, .cores = 4}, {0, 1, 2, 3}), asked), ElementsAre("0-3"));
  asked.options.widen = false;
  EXPECT_THAT(cpus(dgx, asked), ElementsAre("4-7"));
}

TEST(Bind, L3TakesTheCachesOfTheNodeInTurn) {
  const Machine machine = box({.cores = 8, .threads = 2, .l3 = 4}, {0, 0, 0});
  EXPECT_THAT(cpus(machine, request(BindMode::l3, {{0}, {1}, {2}})), ElementsAre("0-3,8-11", "4-7,12-15", "0-3,8-11"));
  EXPECT_THAT(cpus(machine, request(BindMode::l3, {{1}})), ElementsAre("4-7,12-15"))
      << "the others have their share all the same";
  Machine unknown = machine;
  for (model::Cpu& cpu : unknown.cpus) cpu.l3.reset();
  EXPECT_THAT(cpus(unknown, request(BindMode::l3, {{0}})), ElementsAre("0-15!"));
}

TEST(Bind, CoreCountsForEachRank) {
  const Machine machine = box({.cores = 8}, {0, 0});
  BindRequest asked = request(BindMode::core, {{0}, {0}, {1}});
  asked.options.cores = 2;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,1", "2,3", "4,5"));
  asked.options.cores = 3;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0-2", "3,4,7!", "4-6")) << "a free core is lent before one is shared";
  EXPECT_EQ(planned(machine, asked).ranks[1].why,
            "3 cores of node 0 (2 of the 3 cores are lent: GPU 0's own 4 are used up; 1 shared with other ranks)");
  asked.options.cores = 9;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0-7!", "0-7!", "0-7!"));
}

TEST(Bind, CoresAreLentToOneRankAfterTheOtherAndNotStacked) {
  const Machine machine = box({.nodes = 2, .cores = 8}, {0, 0, 8});   // GPU 0's own: 0-3; its neighbour's: 4-7
  BindRequest asked = request(BindMode::core, {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}});
  asked.options.cores = 1;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0", "1", "2", "3", "4!", "5!", "6!", "7!")) << "8 ranks, 8 cores";
  asked.options.cores = 2;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,1", "2,3", "4,5!", "6,7!", "8,9!", "10,11!", "12,13!", "14,15!"));
  asked.options.cores = 3;
  std::vector<unsigned> uses(16);
  for (const model::RankPlan& rank : planned(machine, asked).ranks)
    for (const unsigned cpu : rank.cpus.to_vector()) ++uses[cpu];
  EXPECT_THAT(uses, testing::Each(testing::AnyOf(1u, 2u))) << "24 cores of 16: none is stacked while another is used less";
}

TEST(Bind, CoresNearSeveralGpusAreGivenOutOnce) {
  const Machine machine = box({.nodes = 2, .cores = 8}, {0, 0, 0});
  BindRequest asked = request(BindMode::core, {{0}, {1}, {2}});
  asked.allowed = *CpuSet::parse("0,1,8-12");              // two near cores for three GPUs
  asked.options.cores = 1;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0!", "1", "8!")) << "core 0 is GPU 2's too, of another job, which is said";
  asked.options.cores = 2;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,8!", "1,9!", "10,11!"));
  asked.ranks = {{0, 1, 2}};
  asked.options.cores = 3;
  EXPECT_THAT(cpus(machine, asked), ElementsAre("0,1,8!")) << "no core counts twice for a rank of several GPUs";
}

TEST(Bind, MemoryNodesAreThoseOfTheCpusAndNeverOnesWithoutCpus) {
  Machine machine = box({.packages = 2, .nodes = 2, .cores = 2}, {0, 2});
  machine.numa.push_back({.id = 8, .memory_mib = 65536});  // memory only
  BindRequest asked = request(BindMode::package, {{1}});
  asked.options.memory = model::MemoryPolicy::preferred;
  EXPECT_THAT(planned(machine, asked).ranks[0].memory_nodes, ElementsAre(2, 3));
  asked.options.mode = BindMode::node;
  EXPECT_THAT(planned(machine, asked).ranks[0].memory_nodes, ElementsAre(2));
  asked.options.memory = model::MemoryPolicy::interleave;
  EXPECT_THAT(planned(machine, asked).ranks[0].memory_nodes, ElementsAre(2, 3)) << "over the package";
  asked.options.memory_nodes = {8};
  EXPECT_THAT(planned(machine, asked).ranks[0].memory_nodes, ElementsAre(8)) << "named";
  asked.options.memory_nodes = {7};
  EXPECT_TRUE(std::holds_alternative<BindRefusal>(plan::bind(machine, asked)));
}

TEST(Bind, MemoryWithoutAKnownNodeIsFirstTouch) {
  Machine machine = box({}, {0});
  for (model::Cpu& cpu : machine.cpus) cpu.numa.reset();
  machine.numa.clear();
  BindRequest asked = request(BindMode::package, {{0}});
  asked.options.memory = model::MemoryPolicy::bind;
  const model::RankPlan rank = planned(machine, asked).ranks[0];
  EXPECT_EQ(rank.memory, model::MemoryPolicy::first_touch);
  EXPECT_TRUE(rank.degraded);
}

TEST(Bind, TheNearestNicAndTiesToTheLeastAssigned) {
  Machine machine = box({.packages = 2}, {0, 0, 1});
  const auto nic = [&](std::string name, unsigned bus, int node, double rate) {
    machine.nics.push_back(
        {.name = name, .pci = model::PciAddress{0, static_cast<std::uint8_t>(bus), 0, 0}, .numa = node, .rate_gbps = rate});
  };
  nic("eno1", 0x80, 0, 10);
  nic("mlx5_0", 0x81, 0, 200);
  nic("mlx5_1", 0x82, 0, 200);
  nic("mlx5_2", 0x83, 1, 100);
  BindRequest asked = request(BindMode::node, {{0}, {1}, {2}, {1, 2}});
  BindingPlan plan = planned(machine, asked);
  EXPECT_THAT(plan.ranks[0].nics, ElementsAre("mlx5_0"));
  EXPECT_THAT(plan.ranks[1].nics, ElementsAre("mlx5_1"));
  EXPECT_THAT(plan.ranks[2].nics, ElementsAre("mlx5_2"));
  EXPECT_THAT(plan.ranks[3].nics, ElementsAre("mlx5_0", "mlx5_2"));
  EXPECT_THAT(plan.nics, ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"))
      << "the same list for all ranks, without the management port";
  machine.gpus[0].links.push_back({*model::PciAddress::parse("0000:83:00.0"), model::LinkKind::pix, {}, {}});
  EXPECT_THAT(planned(machine, asked).ranks[0].nics, ElementsAre("mlx5_2")) << "a switch is nearer than a node";
  asked.options.nic = model::NicMode::none;
  EXPECT_TRUE(planned(machine, asked).nics.empty());
}

TEST(Bind, ThreadCounts) {
  const Machine machine = box({.cores = 6, .threads = 2}, {0, 0});
  BindRequest asked = request(BindMode::exclusive, {{0}, {1}});
  EXPECT_EQ(planned(machine, asked).ranks[0].threads, std::nullopt);
  asked.options.threads.mode = model::Threads::Mode::automatic;
  EXPECT_EQ(planned(machine, asked).ranks[0].threads, 3u) << "one for each core";
  asked.options.mode = BindMode::node;
  EXPECT_EQ(planned(machine, asked).ranks[0].threads, 3u) << "two ranks share six cores";
  asked.ranks = Ranks(7, {0});
  EXPECT_EQ(planned(machine, asked).ranks[6].threads, 1u) << "never none, however many share";
  asked.ranks = {{0}, {1}};
  asked.options.mode = BindMode::none;
  EXPECT_EQ(planned(machine, asked).ranks[0].threads, std::nullopt) << "nothing to count";
  asked.options.threads = {model::Threads::Mode::fixed, 5};
  EXPECT_EQ(planned(machine, asked).ranks[0].threads, 5u);
}

TEST(Bind, PeersSeeAllGpusTheirOwnFirst) {
  BindRequest asked = request(BindMode::none, {{3}, {0, 1}});
  EXPECT_THAT(planned(box({}, {0, 0, 0, 0}), asked).ranks[1].visible, ElementsAre(0, 1));
  asked.options.peers = true;
  const BindingPlan plan = planned(box({}, {0, 0, 0, 0}), asked);
  EXPECT_THAT(plan.ranks[0].visible, ElementsAre(3, 0, 1));
  EXPECT_THAT(plan.ranks[1].visible, ElementsAre(0, 1, 3));
}

TEST(Bind, AGpuThatIsNotThereIsRefused) {
  const auto answer = plan::bind(box({}, {0}), request(BindMode::none, {{0}, {1}}));
  ASSERT_TRUE(std::holds_alternative<BindRefusal>(answer));
  EXPECT_EQ(std::get<BindRefusal>(answer).message, "there is no GPU 1: this machine has 1");
}

TEST(DealRanks, RunsOfGpusOrSeveralRanksAGpu) {
  const std::vector<std::size_t> gpus{1, 4, 6};
  EXPECT_EQ(plan::deal_ranks(gpus, 3), (Ranks{{1}, {4}, {6}}));
  EXPECT_EQ(plan::deal_ranks(gpus, 2), (Ranks{{1, 4}, {6}}));
  EXPECT_EQ(plan::deal_ranks(gpus, 5), (Ranks{{1}, {1}, {4}, {4}, {6}}));
  EXPECT_EQ(plan::deal_ranks({}, 2), (Ranks{{}, {}}));
}

}  // namespace
}  // namespace thole::test
