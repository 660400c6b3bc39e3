// What of a plan is asked of the kernel and the environment, and how the kernel's answer is told.
#include "plan/bind/effect.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/text.hpp"

namespace thole::test {
namespace {

using model::CpuSet;
using model::MemoryPolicy;
using plan::Effect;
using plan::HostLimits;

CpuSet cpus(std::string_view list) { return *CpuSet::parse(list); }

model::RankPlan rank_on(std::string_view list) {
  model::RankPlan rank;
  rank.bound = true;
  rank.cpus = cpus(list);
  return rank;
}

model::RankPlan rank_with(MemoryPolicy policy, std::vector<int> nodes) {
  model::RankPlan rank = rank_on("0-3");
  rank.memory = policy;
  rank.memory_nodes = std::move(nodes);
  return rank;
}

HostLimits host(std::string_view list, std::vector<int> nodes = {0, 1}) { return {cpus(list), std::move(nodes), "", false}; }

HostLimits simulated_on(std::string_view list, std::vector<int> nodes = {0}) {
  return {cpus(list), std::move(nodes), "", true};
}

Effect effect_of(const model::RankPlan& rank, const HostLimits& limits, const plan::Environment& environment = {}) {
  return plan::effect(rank, {}, limits, environment);
}

std::string variables(const std::map<std::string, std::string>& set) {
  std::vector<std::string> words;
  for (const auto& [name, value] : set) words.push_back(name + "=" + value);
  return join(words, " ");
}

TEST(Effect, AsksForTheCpusOfThePlan) {
  EXPECT_EQ(effect_of(rank_on("4-7"), host("0-7")).binding.cpus, cpus("4-7"));
  EXPECT_EQ(effect_of({}, host("0-7")).binding, model::Binding()) << "an unbound rank is left alone";
}

TEST(Effect, LeavesOutWhatTheHostOfASimulatedMachineLacks) {
  const Effect some = effect_of(rank_on("1-8"), simulated_on("0-3"));
  EXPECT_EQ(some.binding.cpus, cpus("1-3"));
  EXPECT_EQ(some.absent_cpus, cpus("4-8"));
  const Effect none = effect_of(rank_on("48-63"), simulated_on("0-3"));
  EXPECT_FALSE(none.binding.cpus);
  EXPECT_EQ(none.absent_cpus, cpus("48-63"));
  EXPECT_TRUE(none.lacks.empty()) << "nothing that strict would refuse";
  const Effect memory = effect_of(rank_with(MemoryPolicy::bind, {0, 3}), simulated_on("0-3"));
  EXPECT_EQ(memory.binding.memory_nodes, std::vector<int>{0});
  EXPECT_EQ(memory.absent_nodes, std::vector<int>{3});
  EXPECT_TRUE(memory.lacks.empty());
}

TEST(Effect, FirstTouchIsNoCall) {
  EXPECT_FALSE(effect_of(rank_with(MemoryPolicy::first_touch, {}), host("0-7")).binding.memory);
}

TEST(Effect, AsksForAllowedMemoryNodesOnly) {
  const Effect all = effect_of(rank_with(MemoryPolicy::preferred, {0, 1}), host("0-7"));
  EXPECT_EQ(all.binding.memory, MemoryPolicy::preferred);
  EXPECT_EQ(all.binding.memory_nodes, (std::vector<int>{0, 1}));
  EXPECT_TRUE(all.lacks.empty());
  const Effect some = effect_of(rank_with(MemoryPolicy::bind, {1, 2}), host("0-7"));
  EXPECT_EQ(some.binding.memory_nodes, std::vector<int>{1});
  ASSERT_EQ(some.lacks.size(), 1u);
  EXPECT_EQ(some.lacks[0], "memory node 2 not allowed here, only 0,1: it is set on node 1");
  const Effect none = effect_of(rank_with(MemoryPolicy::bind, {2, 3}), host("0-7"));
  EXPECT_FALSE(none.binding.memory);
  ASSERT_EQ(none.lacks.size(), 1u);
  EXPECT_EQ(none.lacks[0], "memory nodes 2,3 not allowed here, only 0,1: the memory policy is not set");
}

TEST(Effect, SaysThatMemoryPoliciesAreForbidden) {
  HostLimits forbidden = host("0-7");
  forbidden.no_memory_policy = "not permitted here";
  const Effect effect = effect_of(rank_with(MemoryPolicy::bind, {0}), forbidden);
  EXPECT_FALSE(effect.binding.memory);
  EXPECT_EQ(effect.lacks, std::vector<std::string>{"the memory policy is not set: not permitted here"});
}

TEST(Effect, NamesNicsToUcxWithTheirPortAndToNcclExactly) {
  model::RankPlan rank = rank_on("0");
  rank.nics = {"mlx5_0", "mlx5_1"};
  model::BindingPlan plan;
  plan.nics = {"mlx5_0", "mlx5_1", "mlx5_10"};
  EXPECT_EQ(variables(plan::effect(rank, plan, host("0"), {}).set),
            "KMP_AFFINITY=disabled NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_10 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1");
}

TEST(Effect, NamesNoCardWithoutRdma) {
  model::RankPlan rank = rank_on("0");
  rank.nics = {"eth0", "mlx5_0"};
  model::BindingPlan plan;
  plan.nics = {"enp1s0", "hsn0", "mlx5_0"};
  EXPECT_EQ(variables(plan::effect(rank, plan, host("0"), {}).set),
            "KMP_AFFINITY=disabled NCCL_IB_HCA==mlx5_0 UCX_NET_DEVICES=mlx5_0:1");
  rank.nics = plan.nics = {"eno1", "ens3"};
  EXPECT_EQ(variables(plan::effect(rank, plan, host("0"), {}).set), "KMP_AFFINITY=disabled");
}

TEST(Effect, KeepsWhatTheUserHasSet) {
  model::RankPlan rank = rank_on("0-3");
  rank.threads = 4;
  rank.nics = {"mlx5_0"};
  const plan::Environment own{{"OMP_NUM_THREADS", "8"}, {"MKL_NUM_THREADS", "4"}, {"UCX_NET_DEVICES", ""}};
  const Effect effect = effect_of(rank, host("0-3"), own);
  EXPECT_EQ(variables(effect.set), "KMP_AFFINITY=disabled NUMEXPR_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4");
  EXPECT_EQ(effect.kept, (std::vector<std::string>{"UCX_NET_DEVICES= was set already and is kept",
                                                   "OMP_NUM_THREADS=8 was set already and is kept"}));
}

TEST(Effect, LeavesThreadCountsAloneUnlessPlanned) {
  EXPECT_EQ(variables(effect_of(rank_on("0-3"), host("0-3")).set), "KMP_AFFINITY=disabled");
}

TEST(Effect, KeepsIntelsOpenMpFromBindingAnewWhereverItBinds) {
  model::RankPlan unbound = rank_on("0-3");
  unbound.bound = false;
  EXPECT_EQ(variables(effect_of(unbound, host("0-3")).set), "") << "nothing to keep";
  const plan::Environment own{{"KMP_AFFINITY", "compact"}};
  const Effect effect = effect_of(rank_on("0-3"), host("0-3"), own);
  EXPECT_EQ(variables(effect.set), "");
  EXPECT_EQ(effect.kept, (std::vector<std::string>{"KMP_AFFINITY=compact was set already and is kept"}));
}

TEST(Differences, NoneWhenTheKernelGaveWhatWasAsked) {
  const model::Binding asked{cpus("0-3"), MemoryPolicy::bind, {1}};
  EXPECT_TRUE(plan::differences(asked, {asked, 0, 0}).empty());
  EXPECT_TRUE(plan::differences({}, {{cpus("0-7"), MemoryPolicy::interleave, {0}}, 0, 0}).empty()) << "nothing was asked";
}

struct Answer { model::Bound bound; const char* says; };

TEST(Differences, AreToldWithTheReason) {
  const model::Binding asked{cpus("0-3"), MemoryPolicy::bind, {1}};
  const model::Binding narrower{cpus("0,1"), MemoryPolicy::bind, {1}}, elsewhere{cpus("0-3"), MemoryPolicy::bind, {0}},
      default_policy{cpus("0-3"), MemoryPolicy::first_touch, {}}, unread{std::nullopt, MemoryPolicy::bind, {1}};
  const Answer table[] = {
      {{narrower, 0, 0}, "CPUs 0-3 asked for, the kernel gave 0,1: the others are offline, or outside of the cpuset"},
      {{narrower, EINVAL, 0}, "CPUs 0-3 refused: Invalid argument; the command has CPUs 0,1"},
      {{unread, 0, 0}, "CPUs 0-3 asked for; what the kernel gave cannot be read"},
      {{elsewhere, 0, 0}, "memory policy bind on node 1 asked for, the kernel gave bind on node 0"},
      {{default_policy, 0, EPERM},
       "memory policy bind on node 1 refused: Operation not permitted (in a container it takes --cap-add SYS_NICE)"},
  };
  for (const Answer& row : table) EXPECT_EQ(plan::differences(asked, row.bound), std::vector<std::string>{row.says});
}

}  // namespace
}  // namespace thole::test
