// What tasks of a lane of `map` leave behind, in the steps in which it is ended.
#include "app/map/rest.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>

namespace thole::app {
namespace {

using std::chrono::seconds;

class LeftBehind : public port::TaskStrays {
 public:
  port::Strays left;
  std::vector<int> signals;
  std::vector<std::string> others;       // whom the kernel does not let us end

  port::Strays strays(const std::vector<std::string>&) override { return left; }
  std::vector<std::string> end_strays(const port::Whose&, model::Signal signal) override {
    signals.push_back(static_cast<int>(signal));
    return std::exchange(others, {});
  }

  void give_up_strays(const port::Whose& whose) override {
    if (whose.claim.empty()) left = {};
    else left.of.erase(whose.claim);
  }
};

class MapRest : public testing::Test {
 protected:
  RestRound round() {
    const auto into = [](std::vector<std::string>& all) {
      return [&all](const std::vector<std::string>& told) { all.insert(all.end(), told.begin(), told.end()); };
    };
    return {pool_, pool_.left, now_, seconds(10), into(told_), into(out_of_reach_)};
  }
  bool is_over() { return rest_.is_over("claim", round()); }
  bool at_the_deadline() {
    now_ = rest_.deadline().value();
    return is_over();
  }
  bool nobodys_is_over(bool tasks_run) { return nobodys_.is_over({"claim"}, tasks_run, round()); }
  bool at_nobodys_deadline(bool tasks_run) {
    now_ = nobodys_.deadline().value();
    return nobodys_is_over(tasks_run);
  }

  LeftBehind pool_;
  LaneRest rest_;
  NobodysRest nobodys_;
  SteadyTime now_{};
  std::vector<std::string> told_, out_of_reach_;
};

TEST_F(MapRest, WhereNothingIsLeftNothingIsToBeDone) {
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(pool_.signals.empty());
}

TEST_F(MapRest, HasAMomentToEndByItself) {
  pool_.left.of["claim"] = {"77 sleep"};
  EXPECT_FALSE(is_over());
  now_ += Millis{1};
  EXPECT_FALSE(is_over());
  pool_.left.of.clear();
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(pool_.signals.empty());
}

TEST_F(MapRest, IsNamedOnceAndToldToEndAndThenKilledUntilItIsGivenUp) {
  pool_.left.of["claim"] = {"77 sleep"};
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

TEST_F(MapRest, WhatIsFoundAfterAllHasEndedHasItsOwnTime) {
  pool_.left.of["claim"] = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  pool_.left.of.clear();
  EXPECT_TRUE(is_over());                        // and the lane waits for what shows no claim
  now_ += found_anew;
  pool_.left.of["claim"] = {"78 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
  EXPECT_FALSE(at_the_deadline());
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGTERM}));
  EXPECT_EQ(told_, (std::vector<std::string>{"77 sleep", "78 sleep"}));
}

TEST_F(MapRest, WhoForksWithoutEndIsKilledAlthoughALookNowAndThenMissesHim) {
  for (unsigned look = 0; look < 200 && (pool_.signals.empty() || pool_.signals.back() != SIGKILL); ++look) {
    pool_.left.of["claim"] = {std::to_string(look) + " sleep"};
    EXPECT_FALSE(is_over());
    pool_.left.of.clear();
    EXPECT_TRUE(is_over());
    now_ += Millis{100};
  }
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGKILL}));
}

TEST_F(MapRest, WhoWaitsMayHurry) {
  pool_.left.of["claim"] = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  rest_.hurry(now_);
  EXPECT_FALSE(is_over());
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGKILL}));
}

TEST_F(MapRest, WhoIsEndedIsNamedWhateverTheHurry) {
  pool_.left.of["claim"] = {"77 sleep"};
  EXPECT_FALSE(is_over());
  rest_.hurry(now_);                             // in the moment that it has to end by itself
  EXPECT_FALSE(is_over());
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(told_, std::vector<std::string>{"77 sleep"});
}

TEST_F(MapRest, WhoHasHurriedWhileTasksRanWaitsNoPatienceForWhatTheyHaveLeft) {
  rest_.hurry(now_);
  nobodys_.hurry(now_);
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(nobodys_is_over(true));
  pool_.left = {{{"claim", {"77 sleep"}}}, {"78 sleep"}, {}, true};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  EXPECT_FALSE(nobodys_is_over(false));
  EXPECT_FALSE(at_nobodys_deadline(false));
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGKILL, SIGKILL}));
  EXPECT_EQ(told_, (std::vector<std::string>{"77 sleep", "78 sleep"}));
}

TEST_F(MapRest, WhomTheKernelDoesNotLetUsEndIsSaid) {
  pool_.left.of["claim"] = {"77 sleep"};
  pool_.others = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  EXPECT_EQ(out_of_reach_, std::vector<std::string>{"77 sleep"});
}

TEST_F(MapRest, WhatMayBeAnothersIsWaitedForAndNotEnded) {
  pool_.left = {{}, {"77 sleep"}, {}, true};
  EXPECT_FALSE(nobodys_is_over(true));
  for (int looks = 0; looks < 1000; ++looks) EXPECT_FALSE(at_nobodys_deadline(true));
  EXPECT_TRUE(pool_.signals.empty());
  EXPECT_FALSE(at_nobodys_deadline(false));      // no other task runs any more
  EXPECT_FALSE(at_nobodys_deadline(false));
  EXPECT_EQ(told_, std::vector<std::string>{"77 sleep"});
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
}

TEST_F(MapRest, WhoShowsAnotherClaimIsNotWaitedForAsLongAsTasksRun) {
  pool_.left = {{}, {"77 sleep"}, {}, false};
  EXPECT_TRUE(nobodys_is_over(true));
  EXPECT_FALSE(nobodys_.deadline());
  EXPECT_FALSE(nobodys_is_over(false));
}

TEST_F(MapRest, EachIsEndedByOneClock) {
  pool_.left = {{{"another", {"78 sleep"}}}, {"79 sleep"}, {}, false};
  EXPECT_TRUE(is_over());
  pool_.left.of["claim"] = {"77 sleep"};
  EXPECT_FALSE(is_over());
  EXPECT_FALSE(at_the_deadline());
  EXPECT_EQ(told_, std::vector<std::string>{"77 sleep"});
}

TEST_F(MapRest, WhatNoLookFindsIsEndedToo) {
  pool_.left.unknown = true;
  EXPECT_FALSE(nobodys_is_over(false));
  EXPECT_FALSE(at_nobodys_deadline(false));
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
}

TEST_F(MapRest, WhatIsLeftAfterFurtherTasksHasAllItsTime) {
  pool_.left = {{}, {"77 sleep"}, {}, true};
  EXPECT_FALSE(nobodys_is_over(false));
  EXPECT_FALSE(at_nobodys_deadline(false));
  ASSERT_EQ(pool_.signals, std::vector<int>{SIGTERM});
  EXPECT_FALSE(nobodys_is_over(true));           // a further one has been started, and leaves something, too
  now_ += seconds(20);
  EXPECT_FALSE(nobodys_is_over(false));
  EXPECT_FALSE(at_nobodys_deadline(false));
  EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGTERM}));
}

// `map` lives as long as its items come: what one task leaves behind has had its steps when another leaves something.
TEST_F(MapRest, WhatIsLeftBehindNextHasAllItsTimeToo) {
  for (const char* process : {"77 sleep", "78 sleep", "79 sleep"}) {
    pool_.signals.clear();
    told_.clear();
    pool_.left = {{}, {process}, {}, true};
    EXPECT_FALSE(nobodys_is_over(false));
    EXPECT_FALSE(at_nobodys_deadline(false));
    EXPECT_EQ(told_, std::vector<std::string>{process});
    EXPECT_EQ(pool_.signals, std::vector<int>{SIGTERM});
    EXPECT_FALSE(at_nobodys_deadline(false));
    EXPECT_EQ(pool_.signals, (std::vector<int>{SIGTERM, SIGKILL}));
    pool_.left = {};
    EXPECT_TRUE(nobodys_is_over(false));
    EXPECT_FALSE(nobodys_.deadline());
    now_ += seconds(60);
    nobodys_.a_task_begins();
  }
}

TEST_F(MapRest, WhatIsGivenUpKeepsNobodyLonger) {
  pool_.left = {{}, {"77 sleep"}, {}, true};
  EXPECT_FALSE(nobodys_is_over(false));
  while (!at_nobodys_deadline(false)) ASSERT_LT(now_, SteadyTime{} + seconds(30));
  EXPECT_TRUE(nobodys_is_over(false));
  EXPECT_FALSE(nobodys_.deadline());
}

TEST_F(MapRest, WhatIsGivenUpIsNeitherWaitedForNorNamedAfterTheNextTask) {
  pool_.left = {{}, {"77 sleep"}, {}, true};
  EXPECT_FALSE(nobodys_is_over(false));
  while (!at_nobodys_deadline(false)) ASSERT_LT(now_, SteadyTime{} + seconds(30));
  nobodys_.a_task_begins();
  EXPECT_TRUE(nobodys_is_over(true));
  EXPECT_TRUE(nobodys_is_over(false));
  EXPECT_EQ(told_, std::vector<std::string>{"77 sleep"});
}

}  // namespace
}  // namespace thole::app
