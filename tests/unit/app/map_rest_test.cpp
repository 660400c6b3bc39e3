// What tasks of a lane of `map` leave behind, in the steps in which it is ended.
#include "app/map_rest.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace thole::app {
namespace {

using std::chrono::seconds;

class LeftBehind : public port::TaskPool {
 public:
  port::Strays left;
  std::vector<int> signals;

  port::Strays strays(const std::string&, bool) override { return left; }
  void end_strays(const std::string&, bool, int signal) override { signals.push_back(signal); }

  std::size_t open(port::ProcessSpec) override { return 0; }
  void close(std::size_t) override {}
  std::vector<std::string>& words(std::size_t) override { return words_; }
  void check_program(const std::string&) override {}
  void start(std::size_t) override {}
  void signal(std::size_t, int) override {}
  std::vector<std::string> group(std::size_t) override { return {}; }
  port::TaskOutput take_output(std::size_t) override { return {}; }
  void watch(int) override {}
  void unwatch(int) override {}
  std::span<const port::PoolEvent> wait(std::optional<SteadyTime>) override { return {}; }
  void stop_all() override {}

 private:
  std::vector<std::string> words_;
};

class MapRest : public testing::Test {
 protected:
  bool is_over(bool all = false) {
    return rest_.is_over(pool_, "claim", all, now_, seconds(10), [this](const std::vector<std::string>& told) {
      told_.insert(told_.end(), told.begin(), told.end());
    });
  }
  bool at_the_deadline(bool all = false) {
    now_ = rest_.deadline().value();
    return is_over(all);
  }

  LeftBehind pool_;
  LaneRest rest_;
  SteadyTime now_{};
  std::vector<std::string> told_;
};

TEST_F(MapRest, WhereNothingIsLeftNothingIsToBeDone) {
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(pool_.signals.empty());
}

TEST_F(MapRest, HasAMomentToEndByItself) {
  pool_.left.told = {"77 sleep"};
  EXPECT_FALSE(is_over());
  now_ += Millis{1};
  EXPECT_FALSE(is_over());
  pool_.left.told.clear();
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(pool_.signals.empty());
}

TEST_F(MapRest, IsNamedOnceAndToldToEndAndThenKilledUntilItIsGivenUp) {
  pool_.left.told = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  EXPECT_EQ(told_, std::vector<std::string>{"77 sleep"});
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
  const SteadyTime asked = now_;
  now_ += seconds(9);
  EXPECT_FALSE(is_over());
  EXPECT_EQ(pool_.signals.size(), 1u);
  EXPECT_FALSE(at_the_deadline());
  EXPECT_EQ(now_ - asked, seconds(10));
  EXPECT_EQ(pool_.signals.back(), SIGKILL);
  const SteadyTime killed = now_;
  while (!at_the_deadline()) ASSERT_LT(now_ - killed, seconds(11));
  EXPECT_GE(now_ - killed, seconds(10));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(MapRest, WhoWaitsMayHurry) {
  pool_.left.told = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  rest_.hurry(now_);
  EXPECT_FALSE(is_over());
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGKILL}));
}

TEST_F(MapRest, WhatMayBeAnothersIsWaitedForAndNotEnded) {
  pool_.left.others = true;
  for (int looks = 0; looks < 1000; ++looks) {
    EXPECT_FALSE(is_over());
    EXPECT_FALSE(at_the_deadline());
  }
  EXPECT_TRUE(pool_.signals.empty());
  pool_.left.told = {"77 sleep"};                // no other task runs any more: it is told of
  pool_.left.others = false;
  EXPECT_FALSE(at_the_deadline(true));
  EXPECT_FALSE(at_the_deadline(true));
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
}

TEST_F(MapRest, WhatNoLookFindsIsEndedToo) {
  pool_.left.others = true;
  EXPECT_FALSE(is_over(true));
  EXPECT_FALSE(at_the_deadline(true));
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
}

}  // namespace
}  // namespace thole::app
