// The tasks of a lane, as lives of made-up commands.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "app/queue/task_lives.hpp"
#include "support/fake_commands.hpp"

namespace thole::test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

class TaskLivesTest : public testing::Test {
 protected:
  std::unique_ptr<FakeCommands> made = std::make_unique<FakeCommands>();
  FakeCommands& commands = *made;
  SetClock& clock = commands.clock;
  app::TaskLives tasks{std::move(made), clock};

  void start(unsigned bay, port::TaskRun run = {}) {
    run.bay = bay;
    tasks.start({}, run);
  }

  // Until one is over, or nothing but an event from outside moves them.
  std::vector<port::TaskOver> over(SteadyTime::duration most = 1h) {
    const SteadyTime until = clock.now + most;
    std::vector<port::TaskOver> over;
    while (over.empty() && clock.now < until) over = tasks.wait({}, until);
    return over;
  }
};

TEST_F(TaskLivesTest, OneThatIsStoppedLeavesTheOthersAlone) {
  start(0);
  start(1);
  tasks.tell(1, port::StopTask{});
  const auto ended = over();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].bay, 1u);
  EXPECT_TRUE(ended[0].cancelled);
  EXPECT_EQ(ended[0].ended.signal, SIGINT);
  EXPECT_EQ(commands.sent, Words{"1:2 group"});
  commands.end(0, 0);
  const auto other = over();
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].ended.exit_code, 0);
  EXPECT_FALSE(other[0].cancelled);
}

TEST_F(TaskLivesTest, WhatLingersIsStoppedToo) {
  commands.bays[0].rest = {{200, "server"}};
  start(0, {.patience = 10s, .linger = true});
  commands.end(0, 4);
  EXPECT_TRUE(over(1min).empty());
  EXPECT_EQ(commands.sent, Words{});
  tasks.tell(0, port::StopTask{});
  const auto ended = over();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].cancelled);
  EXPECT_EQ(ended[0].ended.exit_code, 4);
  EXPECT_EQ(ended[0].ended.left_behind, Words{"200 server"});
  EXPECT_EQ(commands.sent, Words{"0:15"});
}

TEST_F(TaskLivesTest, WhatHasSucceededIsNotCancelledWithWhatItLeft) {
  for (const bool linger : {false, true}) {
    commands.bays[0].rest = {{200, "server", {SIGTERM}}};
    start(0, {.patience = 10s, .linger = linger});
    commands.end(0, 0);
    EXPECT_TRUE(over(1s).empty());
    tasks.tell(0, port::StopTask{});
    const auto ended = over();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].ended.exit_code, 0);
    EXPECT_FALSE(ended[0].cancelled) << linger;
  }
}

TEST_F(TaskLivesTest, ItsLimitEndsWhatLingers) {
  commands.bays[0].rest = {{200, "server"}};
  start(0, {.time_limit = 30s, .linger = true});
  commands.end(0, 0);
  const auto ended = over();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].ended.exit_code, 0);
  EXPECT_FALSE(ended[0].ended.time_limit) << "the command had ended by itself";
  EXPECT_EQ(clock.now, SteadyTime{} + 30s);
}

TEST_F(TaskLivesTest, WhatAPausedCommandLeavesBehindGoesOn) {
  commands.bays[0].rest = {{200, "server"}};
  start(0, {.linger = true});
  tasks.tell(0, port::PauseTask{true});
  commands.end(0, {}, SIGSEGV);
  EXPECT_TRUE(over(1min).empty());
  EXPECT_EQ(commands.sent, (Words{"0:19", "0:18"}));
}

TEST_F(TaskLivesTest, WhatLingersIsPausedAndItsLimitStandsStill) {
  commands.bays[0].rest = {{200, "server"}};
  start(0, {.time_limit = 30s, .linger = true});
  commands.end(0, 0);
  EXPECT_TRUE(over(10s).empty());
  tasks.tell(0, port::PauseTask{true});
  EXPECT_EQ(tasks.stands(0), port::TaskStands::paused);
  EXPECT_EQ(commands.sent, Words{"0:19"});
  EXPECT_TRUE(over(1h).empty());
  tasks.tell(0, port::PauseTask{false});
  EXPECT_NE(tasks.stands(0), port::TaskStands::paused);
  ASSERT_EQ(over().size(), 1u);
  EXPECT_EQ(clock.now, SteadyTime{} + 1h + 30s);
}

TEST_F(TaskLivesTest, WhatIsBeingEndedIsNotPaused) {
  commands.bays[0].command = {100, "deaf", {SIGINT, SIGTERM}};
  start(0);
  tasks.tell(0, port::StopTask{});
  tasks.tell(0, port::PauseTask{true});
  EXPECT_NE(tasks.stands(0), port::TaskStands::paused);
}

// Whoever looks after it when this lane is killed has to know.
TEST_F(TaskLivesTest, EachRungIsToldBeforeItIsSentAndTheEndOfTheCommandBeforeItsRest) {
  std::vector<unsigned> rungs;
  std::vector<port::TaskOver> ends;
  commands.bays[0].command = {100, "deaf", {SIGINT}};
  commands.bays[0].rest = {{200, "server", {SIGTERM}}};
  start(0, {.time_limit = 30s,
            .on_rung = [&](unsigned rung, bool limit) {
              EXPECT_TRUE(limit);
              if (rungs.empty()) {
                EXPECT_EQ(commands.sent, Words{});
              }
              rungs.push_back(rung);
            },
            .on_command_end = [&](const port::TaskOver& end) { ends.push_back(end); }});
  EXPECT_TRUE(over(35s).empty());
  EXPECT_EQ(rungs, std::vector<unsigned>{1});
  tasks.before_burial({.bay = 0, .how = {.exit_code = 3, .signal = {}, .peak_memory_kib = 7}});
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].ended.exit_code, 3);
  EXPECT_TRUE(ends[0].ended.time_limit);
  EXPECT_EQ(ends[0].peak_memory_kib, 7u);
}

TEST_F(TaskLivesTest, WhatMayHaveBeenTakenDownWithEverythingIsNotToldAsItsEnd) {
  std::vector<port::TaskOver> ends;
  start(0, {.on_command_end = [&](const port::TaskOver& end) { ends.push_back(end); }});
  tasks.before_burial({.bay = 0, .how = {.exit_code = {}, .signal = SIGKILL, .peak_memory_kib = {}}});
  EXPECT_TRUE(ends.empty());
  tasks.before_burial({.bay = 0, .how = {.exit_code = {}, .signal = SIGSEGV, .peak_memory_kib = {}}});
  EXPECT_EQ(ends.size(), 1u);
}

TEST_F(TaskLivesTest, WhatCannotBeEndedIsSaid) {
  commands.bays[0].rest = {{200, "in D state", {SIGTERM, SIGKILL}}};
  start(0);
  commands.end(0, 0);
  const auto ended = over();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].survived);
}

}  // namespace
}  // namespace thole::test
