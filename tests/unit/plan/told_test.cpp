#include "plan/environment/told.hpp"

#include <gtest/gtest.h>

namespace thole::test {
namespace {

const char told_gpus[] = R"([{"key": "GPU-a", "uuid": "GPU-a", "vendor": "nvidia", "listed_as": "0"},
                             {"key": "GPU-b", "uuid": "GPU-b", "vendor": "nvidia", "listed_as": "3"},
                             {"key": "0000:01:00.0", "uuid": "", "vendor": "intel", "listed_as": "1"}])";

std::optional<plan::ToldGpus::Shown> shown(const plan::Environment& lists) {
  plan::Environment environment = lists;
  environment["THOLE_GPUS"] = told_gpus;
  return plan::ToldGpus::read(environment).value().shown_in(environment);
}

TEST(ToldGpus, WhatListsShowGoesByNamesWhereAllHaveSome) {
  const auto two = shown({{"CUDA_VISIBLE_DEVICES", "3,0"}});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->keys, (std::vector<std::string>{"GPU-b", "GPU-a"}));
  EXPECT_EQ(two->by_names, (plan::Environment{{"CUDA_VISIBLE_DEVICES", "GPU-b,GPU-a"}}));
  const auto mixed = shown({{"CUDA_VISIBLE_DEVICES", "0"}, {"ZE_AFFINITY_MASK", "1"}});
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->keys, (std::vector<std::string>{"GPU-a", "0000:01:00.0"}));
  EXPECT_TRUE(mixed->by_names.empty());
}

TEST(ToldGpus, AListOfAnybodyElseShowsNothing) {
  EXPECT_FALSE(shown({}));
  EXPECT_FALSE(shown({{"CUDA_VISIBLE_DEVICES", ""}}));
  EXPECT_FALSE(shown({{"CUDA_VISIBLE_DEVICES", "0,1"}}));
  EXPECT_FALSE(shown({{"CUDA_VISIBLE_DEVICES", "0"}, {"ZE_AFFINITY_MASK", "0"}}));
  EXPECT_FALSE(shown({{"CUDA_VISIBLE_DEVICES", "0,0"}}));
}

}  // namespace
}  // namespace thole::test
