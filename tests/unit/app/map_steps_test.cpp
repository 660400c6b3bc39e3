// What a task of `map` and its process group get when they are to end, and when.
#include "app/map_steps.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "port/processes.hpp"

namespace thole::app {
namespace {

using std::chrono::seconds;
using Phase = TaskSteps::Phase;

class MapSteps : public testing::Test {
 protected:
  MapSteps() { steps_.begin(); }
  TaskSteps::Step at_the_deadline() {
    now_ = steps_.deadline().value();
    return steps_.passed(now_, patience);
  }
  TaskSteps::Step end(bool at_once) { return steps_.end(at_once, now_, patience); }
  void left() { steps_.left(now_); }

  // When it is given up, if it is within an hour; what it gets until then is KILL.
  std::optional<SteadyTime::duration> killed_until_given_up() {
    const SteadyTime since = now_;
    while (now_ - since < std::chrono::hours(1)) {
      const TaskSteps::Step step = at_the_deadline();
      if (step.give_up) return now_ - since;
      EXPECT_EQ(step.signal, SIGKILL);
      EXPECT_TRUE(step.again);
    }
    return std::nullopt;
  }

  static constexpr Millis patience{10'000};
  TaskSteps steps_;
  SteadyTime now_ = SteadyTime{} + seconds(1000);
};

TEST_F(MapSteps, ATaskBeyondItsLimitIsAskedMoreAndMoreAndWaitedForAllTheSame) {
  steps_.limit(now_ + seconds(5));
  EXPECT_FALSE(steps_.is_asked());
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const SteadyTime before = now_;
    const TaskSteps::Step step = at_the_deadline();
    EXPECT_EQ(step.signal, signal);
    EXPECT_FALSE(step.name || step.give_up || step.again);
    EXPECT_EQ(now_ - before, signal == SIGINT ? seconds(5) : seconds(10));
  }
  EXPECT_TRUE(steps_.is_asked());
  EXPECT_FALSE(killed_until_given_up()) << "its GPUs are in use";
}

TEST_F(MapSteps, WhatItLeavesBehindIsNamedToldToEndKilledAndGivenUp) {
  left();
  EXPECT_EQ(*steps_.deadline() - now_, port::settling_time);
  TaskSteps::Step step = at_the_deadline();
  EXPECT_TRUE(step.name);
  EXPECT_EQ(step.signal, SIGTERM);
  const SteadyTime told = now_;
  step = at_the_deadline();
  EXPECT_EQ(now_ - told, seconds(10));
  EXPECT_FALSE(step.name);
  EXPECT_EQ(step.signal, SIGKILL);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, WithAllOthersItGetsTermAndThenKillAndIsGivenUp) {
  EXPECT_EQ(end(false).signal, SIGTERM);
  EXPECT_EQ(end(false).signal, 0) << "its time runs";
  EXPECT_EQ(at_the_deadline().signal, SIGKILL);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, WhoHurriesKillsAtOnceAndWaitsNoLongerForASecondHurry) {
  end(false);
  EXPECT_EQ(end(true).signal, SIGKILL);
  const SteadyTime killed = now_;
  now_ += seconds(5);
  EXPECT_TRUE(end(true).again);
  ASSERT_TRUE(killed_until_given_up());
  EXPECT_EQ(now_ - killed, seconds(10));
}

TEST_F(MapSteps, WhatIsKilledForItsLimitIsGivenUpWhenAllAreToEnd) {
  steps_.limit(now_);
  for (int steps = 0; steps < 3; ++steps) at_the_deadline();
  EXPECT_EQ(end(false).signal, SIGKILL);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, NobodyOfAGroupIsEndedUnnamedWhateverTheHurry) {
  left();
  EXPECT_EQ(end(false).signal, 0) << "it has its moment";
  const TaskSteps::Step step = end(true);
  EXPECT_TRUE(step.name);
  EXPECT_EQ(step.signal, SIGKILL);
  EXPECT_EQ(steps_.phase(), Phase::ending_rest);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, AHurryEndsThePatienceWithWhatIsLeft) {
  left();
  at_the_deadline();
  EXPECT_EQ(end(false).signal, 0) << "it has had TERM";
  EXPECT_EQ(end(true).signal, SIGKILL);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, WhatOutlivesAKilledCommandIsNotAskedAnew) {
  end(false);
  end(true);
  left();
  const TaskSteps::Step step = at_the_deadline();
  EXPECT_TRUE(step.name);
  EXPECT_EQ(step.signal, SIGKILL);
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, TheTimeThatWeStandStillDoesNotCount) {
  left();
  at_the_deadline();
  at_the_deadline();
  now_ += seconds(60);
  steps_.later(seconds(60));
  EXPECT_EQ(killed_until_given_up(), seconds(10));
}

TEST_F(MapSteps, AnIdlePlaceGetsNothing) {
  steps_.over();
  EXPECT_EQ(end(true).signal, 0);
  EXPECT_FALSE(steps_.deadline());
}

}  // namespace
}  // namespace thole::app
