// A command's life, played with made-up commands: what is sent, told and answered, and when.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "app/claim/command_life.hpp"
#include "support/fake_commands.hpp"

namespace thole::test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

class CommandLifeTest : public testing::Test {
 protected:
  FakeCommands commands;
  Words left_behind;
  std::vector<port::Ending> endings;
  bool unseen = false;
  app::LifeEvents events{
      .left_behind = [this](const Words& who, bool) { left_behind.insert(left_behind.end(), who.begin(), who.end()); },
      .out_of_reach = {},
      .spared = {},
      .unseen = [this] { unseen = true; },
      .ending = [this](const port::Ending& ending) { endings.push_back(ending); }};

  FakeCommands::Running& bay() { return commands.bays[0]; }
  Millis now() const { return std::chrono::duration_cast<Millis>(commands.clock.now.time_since_epoch()); }

  app::CommandLife begun(const plan::Manner& manner) {
    app::CommandLife life(commands, commands.clock, 0, manner, events);
    port::ProcessSpec spec;
    spec.argv = {"train"};
    life.begin(spec);
    return life;
  }

  // Until it is over, or nothing but an event from outside moves it.
  void play(app::CommandLife& life) {
    while (!life.is_over()) {
      if (commands.happened.empty() && !life.deadline()) return;
      for (const port::CommandEvent& event : commands.wait(life.deadline())) life.heard(event);
      life.passed();
    }
  }
};

TEST_F(CommandLifeTest, WhoEndsByHimselfGetsNoSignal) {
  auto life = begun({});
  commands.end(0, 3);
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_EQ(life.ended().exit_code, 3);
  EXPECT_EQ(commands.sent, Words{});
  EXPECT_TRUE(bay().let_go);
}

TEST_F(CommandLifeTest, TheLimitEndsTheCommandByTheLadder) {
  bay().command = {100, "train", {SIGINT, SIGTERM}};
  auto life = begun({.limit = 60s, .patience = 10s});
  play(life);
  EXPECT_EQ(commands.sent, (Words{"0:2 group", "0:15", "0:9"}));
  EXPECT_EQ(now(), 80s);
  EXPECT_TRUE(life.ended().time_limit);
  EXPECT_FALSE(life.ended().released);
  EXPECT_EQ(life.ended().signal, SIGKILL);
  ASSERT_EQ(endings.size(), 2u) << "KILL is not waited for";
  EXPECT_EQ(endings[0].pid, 100);
  EXPECT_EQ(endings[0].name, "train");
  for (const port::Ending& ending : endings) EXPECT_EQ(ending.killed, SteadyTime{} + 80s);
}

TEST_F(CommandLifeTest, WhatIsLeftBehindIsNamedBeforeItIsEnded) {
  bay().rest = {{200, "server", {SIGTERM}}, {201, "helper"}};
  auto life = begun({.patience = 10s});
  commands.end(0, 0);
  play(life);
  EXPECT_EQ(left_behind, (Words{"200 server", "201 helper"}));
  EXPECT_EQ(life.ended().left_behind, left_behind);
  EXPECT_EQ(commands.sent, (Words{"0:15", "0:9"}));
  EXPECT_EQ(now(), 10200ms);
  ASSERT_EQ(endings.size(), 1u);
  EXPECT_EQ(endings[0].pid, 200);
  EXPECT_EQ(endings[0].killed, SteadyTime{} + 10200ms);
}

TEST_F(CommandLifeTest, HelpersHaveAMoment) {
  bay().rest = {{200, "helper"}};
  auto life = begun({});
  commands.end(0, 0);
  for (const port::CommandEvent& event : commands.wait(life.deadline())) life.heard(event);
  bay().rest.clear();
  commands.stir();
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_EQ(left_behind, Words{});
  EXPECT_EQ(commands.sent, Words{});
}

class Lingering : public CommandLifeTest {
 protected:
  app::CommandLife lingering(std::optional<Millis> limit = {}) {
    bay().rest = {{200, "server"}};
    auto life = begun({.limit = limit, .patience = 10s, .leaves = plan::Leaves::linger});
    commands.end(0, 0);
    for (int i = 0; i < 2; ++i) {                // its end, and the moment for helpers
      for (const port::CommandEvent& event : commands.wait(life.deadline())) life.heard(event);
      life.passed();
    }
    EXPECT_FALSE(life.is_over());
    EXPECT_EQ(left_behind, Words{"200 server"});
    EXPECT_EQ(commands.sent, Words{});
    EXPECT_EQ(endings.size(), 1u);
    EXPECT_EQ(endings.back().killed, std::nullopt);
    return life;
  }
};

TEST_F(Lingering, ItIsWaitedFor) {
  auto life = lingering();
  play(life);
  EXPECT_FALSE(life.is_over());
  bay().rest.clear();
  commands.stir();
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_EQ(commands.sent, Words{});
}

TEST_F(Lingering, ReleaseEndsIt) {
  auto life = lingering();
  life.tell(plan::Asked{plan::Why::released});
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_EQ(commands.sent, Words{"0:15"});
  EXPECT_FALSE(life.ended().released) << "the command had ended by itself";
  EXPECT_EQ(endings.back().killed, commands.clock.now + 10s);
}

TEST_F(Lingering, ItsLimitEndsIt) {
  auto life = lingering(60s);
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_EQ(now(), 60s);
  EXPECT_EQ(commands.sent, Words{"0:15"});
  EXPECT_FALSE(life.ended().time_limit);
}

TEST_F(Lingering, AnInterruptEndsItAndTheNextOneItsPatience) {
  auto life = lingering();
  bay().rest = {{200, "server", {SIGTERM}}};
  life.tell(plan::Hurried{});
  EXPECT_EQ(commands.sent, Words{"0:15"});
  life.tell(plan::Hurried{});
  play(life);
  EXPECT_EQ(commands.sent, (Words{"0:15", "0:9"}));
  EXPECT_TRUE(life.is_over());
}

TEST_F(Lingering, AHangUpLeavesItAlone) {
  auto life = lingering();
  life.heard(port::Signalled{SIGHUP});
  play(life);
  EXPECT_FALSE(life.is_over());
  EXPECT_EQ(commands.sent, Words{});
  life.heard(port::Signalled{SIGTERM});
  EXPECT_EQ(commands.sent, Words{"0:15"});
}

// timeout(1) tells its child and then its group: what ended the command is no further asking.
TEST_F(Lingering, WhatHasEndedTheCommandDoesNotEndItTwice) {
  auto life = lingering();
  life.heard(port::Signalled{SIGTERM, true});
  life.heard(port::Signalled{SIGTERM});
  play(life);
  EXPECT_EQ(commands.sent, Words{});
  commands.clock.now += 1s;
  life.heard(port::Signalled{SIGTERM});
  EXPECT_EQ(commands.sent, Words{"0:15"});
}

TEST_F(CommandLifeTest, WhatCannotBeReadIsNamedAllTheSame) {
  bay().rest = {{200, "forks"}};
  auto life = begun({});
  commands.end(0, 0);
  commands.shows = false;
  play(life);
  EXPECT_EQ(left_behind, Words{"(processes that end and begin faster than they are read)"});
}

TEST_F(CommandLifeTest, TheLimitStandsStillWhileWeDo) {
  auto life = begun({.limit = 60s});
  commands.clock.now += 30s + 1h;
  commands.happened.push_back(port::WeSlept{1h});
  play(life);
  EXPECT_EQ(now(), 60s + 1h);
  EXPECT_TRUE(life.ended().time_limit);
}

TEST_F(CommandLifeTest, WhatNobodyCanEndIsGivenUp) {
  bay().rest = {{200, "in D state", {SIGTERM, SIGKILL}}};
  auto life = begun({.patience = 10s});
  commands.end(0, 0);
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_GE(now(), 20200ms);
  EXPECT_LT(now(), 21300ms);
  EXPECT_EQ(left_behind, Words{"200 in D state"});
}

TEST_F(CommandLifeTest, WhatCannotBeSeenIsTold) {
  bay().rest = {{200, "server"}};
  bay().seen = model::Left::unseen;
  auto life = begun({});
  commands.end(0, 0);
  play(life);
  EXPECT_TRUE(life.is_over());
  EXPECT_TRUE(unseen);
  EXPECT_EQ(left_behind, Words{});
  EXPECT_EQ(commands.sent, Words{});
}

}  // namespace
}  // namespace thole::test
