// A row of the table of docs/claims.md "Life and end" a test: what comes, what is to be done, and the phase after it.
#include <gtest/gtest.h>

#include <string>

#include "plan/job/ending.hpp"

namespace thole::plan {
namespace {

using namespace std::chrono_literals;
using model::Left;
using model::SentTo;
using model::Signal;

std::string name_of(Signal signal) {
  switch (signal) {
    case Signal::hang_up: return "HUP";
    case Signal::interrupt: return "INT";
    case Signal::quit: return "QUIT";
    case Signal::terminate: return "TERM";
    case Signal::kill: return "KILL";
    case Signal::stop: return "STOP";
    case Signal::go_on: return "CONT";
    case Signal::terminal_stop: return "TSTP";
  }
  return "?";
}

std::string words(const Do& act) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  if (act.name) add("name");
  if (act.send) add(name_of(act.send->signal) + (act.send->to == SentTo::group ? " group" : " all"));
  if (act.go_on) add("CONT all");
  if (act.look) add("look");
  return text;
}

struct PlayedEnding {
  Manner manner;
  Life life = born(manner, SteadyTime{});
  std::string operator()(Millis at, const Event& event) { return words(after(life, manner, event, SteadyTime{} + at)); }
  std::optional<Millis> deadline() const {
    const auto when = life.deadline();
    return when ? std::optional(std::chrono::duration_cast<Millis>(*when - SteadyTime{})) : std::nullopt;
  }
};

constexpr Looked nothing{Left::nothing}, something{Left::something}, unsure{Left::unsure}, unseen{Left::unseen};

PlayedEnding settling(Leaves leaves, std::optional<Millis> limit = {}) {
  PlayedEnding play{{limit, 1s, leaves}};
  EXPECT_EQ(play(0s, Ended{}), leaves == Leaves::kill ? "KILL all look" : "look");
  return play;
}

PlayedEnding lingering(std::optional<Millis> limit = {}) {
  PlayedEnding play = settling(Leaves::linger, limit);
  EXPECT_EQ(play(0s, something), "");
  EXPECT_EQ(play(200ms, Passed{}), "look");
  EXPECT_EQ(play(200ms, something), "name");
  EXPECT_EQ(play.life.phase, Phase::lingering);
  return play;
}

TEST(Ending, WhoEndsAloneIsOverAtOnce) {
  PlayedEnding play{{}};
  EXPECT_EQ(play(1s, Ended{true}), "");
  EXPECT_EQ(play.life.phase, Phase::over);
  EXPECT_EQ(play.deadline(), std::nullopt);
}

TEST(Ending, TheLadderIsInterruptTerminateKillEachAfterThePatience) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play.deadline(), 3s);
  EXPECT_EQ(play(2999ms, Passed{}), "");
  EXPECT_EQ(play(3s, Passed{}), "INT group");
  EXPECT_EQ(play.life.why, Why::time_limit);
  EXPECT_EQ(play.deadline(), 4s);
  EXPECT_EQ(play(4s, Passed{}), "TERM all");
  EXPECT_EQ(play(5s, Passed{}), "KILL all");
  EXPECT_EQ(play.deadline(), 5100ms) << "some fork faster than they are found";
  EXPECT_EQ(play(5100ms, Passed{}), "KILL all");
  EXPECT_EQ(play.deadline(), 5300ms) << "ever more seldom, for what hangs in a driver";
  EXPECT_EQ(play.life.phase, Phase::running) << "the command itself is waited for: its GPU is in use";
}

TEST(Ending, AskedItBeginsWithTheRungThatWasAskedForAndKeepsTheFirstReason) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(1s, Asked{Why::cancelled}), "INT group");
  EXPECT_EQ(play(1500ms, Asked{Why::released}), "") << "asking again changes nothing";
  EXPECT_EQ(play(1500ms, Asked{Why::interrupted, Rung::terminate}), "TERM all");
  EXPECT_EQ(play.life.why, Why::cancelled);
  EXPECT_EQ(play(1600ms, Asked{Why::cancelled, Rung::interrupt}), "") << "nor does it lower the rung";
  EXPECT_EQ(play(1700ms, Hurried{}), "KILL all");
}

TEST(Ending, WhoIsAskedHasNoLimitAnyMore) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(2500ms, Asked{Why::cancelled}), "INT group");
  EXPECT_EQ(play.deadline(), 3500ms);
}

TEST(Ending, TheLimitThatCameFirstIsTheReason) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(3s, Passed{}), "INT group");
  EXPECT_EQ(play(3100ms, Asked{Why::interrupted, Rung::terminate}), "TERM all");
  EXPECT_EQ(play.life.why, Why::time_limit);
}

TEST(Ending, WhatIsLeftBehindIsNamedAndGetsTermThenKill) {
  PlayedEnding play = settling(Leaves::end);
  EXPECT_EQ(play(10ms, something), "") << "helpers end with it";
  EXPECT_EQ(play(200ms, Passed{}), "look");
  EXPECT_EQ(play(200ms, something), "name TERM all");
  EXPECT_EQ(play.life.phase, Phase::ending);
  EXPECT_EQ(play(300ms, Stirred{}), "TERM all look") << "those that were started since";
  EXPECT_EQ(play(1200ms, Passed{}), "KILL all look");
  EXPECT_EQ(play(1200ms, unsure), "");
  EXPECT_EQ(play(1300ms, Passed{}), "KILL all look");
  EXPECT_EQ(play(1300ms, nothing), "");
  EXPECT_EQ(play.life.phase, Phase::over);
  EXPECT_FALSE(play.life.survived);
}

TEST(Ending, WhatIsLeftOfACommandThatHasHeardTermIsKilledWhenThatWouldHaveBeen) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(3s, Passed{}), "INT group");
  EXPECT_EQ(play(4s, Passed{}), "TERM all");
  EXPECT_EQ(play(4500ms, Ended{}), "look");
  EXPECT_EQ(play(4500ms, something), "");
  EXPECT_EQ(play(4700ms, Passed{}), "look");
  EXPECT_EQ(play(4700ms, something), "name TERM all") << "for those that were started since";
  EXPECT_EQ(play.deadline(), 5s) << "an end takes two patiences, whatever is left";
  EXPECT_EQ(play(5s, Passed{}), "KILL all look");
}

TEST(Ending, WhatIsLeftOfACommandThatHeardTermLateIsKilledAtOnce) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(3s, Passed{}), "INT group");
  EXPECT_EQ(play(4s, Passed{}), "TERM all");
  EXPECT_EQ(play(4900ms, Ended{}), "look");
  EXPECT_EQ(play(4900ms, something), "");
  EXPECT_EQ(play(5100ms, Passed{}), "look");
  EXPECT_EQ(play(5100ms, something), "name TERM all");
  EXPECT_EQ(play(5100ms, Passed{}), "KILL all look");
}

TEST(Ending, WhatIsLeftOfACommandThatWasStoppedMeanwhileIsKilledThatMuchLater) {
  PlayedEnding play{{3s, 1s}};
  EXPECT_EQ(play(3s, Passed{}), "INT group");
  EXPECT_EQ(play(4s, Passed{}), "TERM all");
  EXPECT_EQ(play(4100ms, Ended{}), "look");
  EXPECT_EQ(play(14100ms, Slept{10s}), "");
  EXPECT_EQ(play(14300ms, Passed{}), "look");
  EXPECT_EQ(play(14300ms, something), "name TERM all");
  EXPECT_EQ(play.deadline(), 15s);
}

TEST(Ending, WhatEndsInTheFirstMomentIsNotNamed) {
  PlayedEnding play = settling(Leaves::end);
  EXPECT_EQ(play(50ms, Stirred{}), "look");
  EXPECT_EQ(play(50ms, nothing), "");
  EXPECT_EQ(play.life.phase, Phase::over);
}

TEST(Ending, WhatKillDoesNotEndIsGivenUp) {
  PlayedEnding play = settling(Leaves::end);
  (void)play(200ms, something);
  EXPECT_EQ(play(1200ms, Passed{}), "KILL all look");
  EXPECT_EQ(play(3199ms, something), "");
  EXPECT_EQ(play.life.phase, Phase::ending) << "two seconds at least, however short the patience";
  EXPECT_EQ(play(3200ms, something), "");
  EXPECT_EQ(play.life.phase, Phase::over);
  EXPECT_TRUE(play.life.survived);
}

TEST(Ending, WhatCannotBeSeenIsNamedAndGivenUp) {
  PlayedEnding play = settling(Leaves::end);
  EXPECT_EQ(play(200ms, unseen), "name");
  EXPECT_EQ(play.life.phase, Phase::over);
  EXPECT_TRUE(play.life.survived);
}

TEST(Ending, WhatCannotBeSeenLingersAsWell) {
  PlayedEnding play = settling(Leaves::linger);
  EXPECT_EQ(play(200ms, unseen), "name");
  EXPECT_EQ(play.life.phase, Phase::lingering);
  EXPECT_EQ(play(9s, Asked{Why::released}), "TERM all");
  EXPECT_EQ(play(9s, Stirred{}), "TERM all look");
  EXPECT_EQ(play(9s, unseen), "");
  EXPECT_EQ(play.life.phase, Phase::over);
}

TEST(Ending, ALadderThatReachedKillGoesOnThere) {
  PlayedEnding play{{3s, 1s}};
  (void)play(3s, Passed{});
  (void)play(4s, Passed{});
  EXPECT_EQ(play(5s, Passed{}), "KILL all");
  EXPECT_EQ(play(5050ms, Ended{}), "look");
  EXPECT_EQ(play(5250ms, something), "name KILL all look");
}

TEST(Ending, WhoIsToBeKilledWithItGetsKillAtOnce) {
  PlayedEnding play = settling(Leaves::kill);
  EXPECT_EQ(play(0s, nothing), "");
  EXPECT_EQ(play.life.phase, Phase::over);
}

TEST(Ending, WithAllOthersACommandThatKillDoesNotEndIsGivenUp) {
  for (const Why why : {Why::halted, Why::interrupted}) {
    PlayedEnding play{{{}, 10s}};
    EXPECT_EQ(play(0s, Asked{why, Rung::terminate}), "TERM all");
    EXPECT_EQ(play(1s, Asked{why, Rung::terminate}), "") << "its time runs";
    EXPECT_EQ(play(10s, Passed{}), "KILL all");
    EXPECT_EQ(play(19s, Passed{}), "KILL all");
    EXPECT_EQ(play(20s, Passed{}), "");
    EXPECT_EQ(play.life.phase, Phase::over);
    EXPECT_TRUE(play.life.survived);
  }
}

TEST(Ending, WhoWasKilledForItsLimitIsGivenUpWhenAllAreToEnd) {
  PlayedEnding play{{1s, 10s}};
  (void)play(1s, Passed{});
  (void)play(11s, Passed{});
  EXPECT_EQ(play(21s, Passed{}), "KILL all");
  EXPECT_EQ(play(1h, Passed{}), "KILL all");
  EXPECT_EQ(play.life.phase, Phase::running) << "its GPUs are in use";
  EXPECT_EQ(play(1h, Asked{Why::interrupted, Rung::terminate}), "");
  EXPECT_EQ(play(1h + 10s, Passed{}), "");
  EXPECT_TRUE(play.life.survived);
}

TEST(Ending, WhoHurriesKillsAtOnceAndWaitsNoLongerForASecondHurry) {
  PlayedEnding play{{{}, 10s}};
  (void)play(0s, Asked{Why::interrupted, Rung::terminate});
  EXPECT_EQ(play(1s, Hurried{}), "KILL all");
  EXPECT_EQ(play(6s, Hurried{}), "KILL all");
  EXPECT_EQ(play(11s, Passed{}), "");
  EXPECT_TRUE(play.life.survived);
}

TEST(Ending, WhatIsLeftBehindIsNamedWhateverTheHurry) {
  PlayedEnding play = settling(Leaves::end);
  EXPECT_EQ(play(10ms, Hurried{}), "") << "nobody has asked for its end before";
  EXPECT_EQ(play(20ms, Asked{Why::interrupted, Rung::terminate}), "") << "it has its moment";
  EXPECT_EQ(play(30ms, Hurried{}), "");
  EXPECT_EQ(play(200ms, something), "name KILL all look");
}

TEST(Ending, LingeringIsWaitedForAsLongAsItLives) {
  PlayedEnding play = lingering();
  EXPECT_EQ(play.deadline(), std::nullopt);
  EXPECT_EQ(play(1h, Stirred{}), "look");
  EXPECT_EQ(play(1h, nothing), "");
  EXPECT_EQ(play.life.phase, Phase::over);
}

TEST(Ending, LingeringObeys) {
  EXPECT_EQ(lingering()(9s, Asked{Why::cancelled}), "TERM all");
  EXPECT_EQ(lingering()(9s, Asked{Why::released}), "TERM all");
  EXPECT_EQ(lingering()(9s, Hurried{}), "TERM all");
  PlayedEnding limited = lingering(5s);
  EXPECT_EQ(limited.deadline(), 5s);
  EXPECT_EQ(limited(5s, Passed{}), "TERM all");
  EXPECT_EQ(limited.life.why, Why::time_limit);
  PlayedEnding longer = lingering(5s);
  EXPECT_EQ(longer(1s, Extended{SteadyTime{} + 50s}), "");
  EXPECT_EQ(longer(5s, Passed{}), "");
  EXPECT_EQ(longer(50s, Passed{}), "TERM all");
}

TEST(Ending, AskedWhileSettlingNothingLingers) {
  PlayedEnding play = settling(Leaves::linger);
  EXPECT_EQ(play(100ms, Asked{Why::released}), "");
  EXPECT_EQ(play(200ms, something), "name TERM all");
}

TEST(Ending, APausedCommandIsStoppedUntilAllOfItStands) {
  PlayedEnding play{{4s, 1s}};
  EXPECT_EQ(play(1s, Paused{true}), "STOP all look");
  EXPECT_EQ(play(1s, Looked{Left::something, false}), "");
  EXPECT_EQ(play.deadline(), 1001ms);
  EXPECT_EQ(play(1001ms, Passed{}), "STOP all look");
  EXPECT_EQ(play(1001ms, Looked{Left::something, false}), "");
  EXPECT_EQ(play.deadline(), 1003ms);
  EXPECT_EQ(play(1003ms, Passed{}), "STOP all look");
  EXPECT_EQ(play(1003ms, Looked{Left::something, true}), "");
  EXPECT_EQ(play.deadline(), std::nullopt) << "the limit stands still";
  EXPECT_EQ(play(60s, Paused{true}), "");
  EXPECT_EQ(play(60s, Paused{false}), "CONT all");
  EXPECT_EQ(play.deadline(), 63s);
}

TEST(Ending, WhoIsPausedCanBeAskedAndExtended) {
  PlayedEnding asked{{4s, 1s}};
  (void)asked(1s, Paused{true});
  EXPECT_EQ(asked(2s, Asked{Why::cancelled}), "INT group CONT all") << "what the pause has stopped and INT does not reach";
  EXPECT_FALSE(asked.life.paused);
  EXPECT_EQ(asked(2s, Paused{true}), "") << "who is ending is not paused any more";
  PlayedEnding extended{{4s, 1s}};
  (void)extended(1s, Paused{true});
  EXPECT_EQ(extended(2s, Extended{SteadyTime{} + 9s}), "");
  EXPECT_EQ(extended(20s, Paused{false}), "CONT all");
  EXPECT_EQ(extended.deadline(), 27s);
}

TEST(Ending, WhatAPausedCommandLeavesBehindIsContinued) {
  PlayedEnding play{{4s, 1s, Leaves::linger}};
  (void)play(1s, Paused{true});
  (void)play(1s, Looked{Left::something, true});
  EXPECT_EQ(play(60s, Ended{}), "CONT all look");
  EXPECT_EQ(play(60200ms, something), "name");
  EXPECT_EQ(play.deadline(), 63s) << "and its limit goes on";
}

TEST(Ending, WhatLingersCanBePausedAndItsLimitStandsStill) {
  PlayedEnding play = lingering(5s);
  EXPECT_EQ(play(2s, Paused{true}), "STOP all look");
  EXPECT_EQ(play(2s, Looked{Left::something, true}), "");
  EXPECT_EQ(play.deadline(), std::nullopt);
  EXPECT_EQ(play(60s, Stirred{}), "look");
  EXPECT_EQ(play(60s, something), "");
  EXPECT_EQ(play(60s, Paused{false}), "CONT all");
  EXPECT_EQ(play.deadline(), 63s);
  (void)play(61s, Paused{true});
  EXPECT_EQ(play(62s, Asked{Why::cancelled}), "TERM all") << "which brings CONT with it";
  PlayedEnding early = settling(Leaves::linger, 5s);
  EXPECT_EQ(early(100ms, Paused{true}), "") << "it is not known yet who lingers";
  EXPECT_EQ(early(200ms, Passed{}), "look");
  EXPECT_EQ(early(200ms, something), "name STOP all look");
  EXPECT_EQ(early.life.phase, Phase::lingering);
  PlayedEnding gone = lingering();
  (void)gone(2s, Paused{true});
  EXPECT_EQ(gone(3s, nothing), "");
  EXPECT_EQ(gone.life.phase, Phase::over);
}

TEST(Ending, WhoIsHurriedBeforeItLingersDoesNot) {
  PlayedEnding play = settling(Leaves::linger);
  EXPECT_EQ(play(100ms, Hurried{}), "");
  EXPECT_EQ(play(200ms, Passed{}), "look");
  EXPECT_EQ(play(200ms, something), "name TERM all");
}

TEST(Ending, WhileWeStandStillNoTimePasses) {
  PlayedEnding play{{2s, 1s}};
  EXPECT_EQ(play(6s, Slept{5s}), "");
  EXPECT_EQ(play(6s, Passed{}), "");
  EXPECT_EQ(play(7s, Passed{}), "INT group");
  EXPECT_EQ(play(7500ms, Slept{400ms}), "");
  EXPECT_EQ(play(8s, Passed{}), "");
  EXPECT_EQ(play(8400ms, Passed{}), "TERM all");
}

TEST(Ending, NorOfThePatienceWithWhatKillLeaves) {
  PlayedEnding play = settling(Leaves::kill);
  EXPECT_EQ(play(5s, Slept{5s}), "");
  EXPECT_EQ(play(6999ms, something), "");
  EXPECT_EQ(play.life.phase, Phase::ending);
  EXPECT_EQ(play(7s, something), "");
  EXPECT_TRUE(play.life.survived);
}

TEST(Ending, WhoIsEndingIsNotExtended) {
  PlayedEnding play{{2s, 1s}};
  (void)play(2s, Passed{});
  EXPECT_EQ(play(2s, Extended{SteadyTime{} + 99s}), "");
  EXPECT_EQ(play(3s, Passed{}), "TERM all");
}

}  // namespace
}  // namespace thole::plan
