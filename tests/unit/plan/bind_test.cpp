#include "plan/bind.hpp"

#include <gtest/gtest.h>

#include "support/machines.hpp"

namespace thole::plan {
namespace {

using model::BindMode;
using model::BindRefusal;
using model::BindRequest;
using model::BindingPlan;
using model::CpuSet;

BindRequest request(BindMode mode, std::vector<std::vector<std::size_t>> ranks) {
  BindRequest request;
  request.options.mode = mode;
  request.ranks = std::move(ranks);
  return request;
}

BindingPlan planned(const model::Snapshot& snapshot, const BindRequest& request) {
  auto answer = bind(snapshot.machine, request);
  if (const auto* refusal = std::get_if<BindRefusal>(&answer)) {
    ADD_FAILURE() << refusal->message;
    return {};
  }
  return std::get<BindingPlan>(answer);
}

std::string cpus(const BindingPlan& plan, std::size_t rank) {
  return rank < plan.ranks.size() ? plan.ranks[rank].cpus.to_string() : "no such rank";
}

TEST(Bind, NodeIsTheNodeOfTheGpuAndSeveralGpusTheUnion) {
  const auto snapshot = test::machine({"ab", "cd"});
  const BindingPlan plan = planned(snapshot, request(BindMode::node, {{0}, {3}, {1, 2}}));
  EXPECT_EQ(cpus(plan, 0), "0-7");
  EXPECT_EQ(cpus(plan, 1), "8-15");
  EXPECT_EQ(cpus(plan, 2), "0-15");
  EXPECT_FALSE(plan.ranks[2].degraded);
}

TEST(Bind, NoneAndNoGpuAreNotBound) {
  const auto snapshot = test::machine({"ab"});
  EXPECT_FALSE(planned(snapshot, request(BindMode::none, {{0}})).ranks[0].bound);
  EXPECT_FALSE(planned(snapshot, request(BindMode::node, {{}})).ranks[0].bound);
}

TEST(Bind, NeverLeavesTheInheritedMaskAndSaysWhenNothingNearIsInIt) {
  const auto snapshot = test::machine({"ab", "cd"});
  BindRequest asked = request(BindMode::node, {{0}, {2}});
  asked.allowed = CpuSet::parse("2-3");
  const BindingPlan plan = planned(snapshot, asked);
  EXPECT_EQ(cpus(plan, 0), "2,3");
  EXPECT_FALSE(plan.ranks[0].degraded);
  EXPECT_EQ(cpus(plan, 1), "2,3");
  EXPECT_TRUE(plan.ranks[1].degraded);
  EXPECT_NE(plan.ranks[1].why.find("no CPU near GPU 2 (8-15) is allowed"), std::string::npos) << plan.ranks[1].why;
}

}  // namespace
}  // namespace thole::plan
