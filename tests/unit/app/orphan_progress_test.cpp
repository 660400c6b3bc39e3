// What a dead lane has left: its limit, its pauses and the steps of its end, also from runner to runner.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>

#include "plan/job/fate.hpp"
#include "unit/app/orphans_fixture.hpp"

namespace thole::host {
namespace {

TEST_F(OrphansTest, WhatWasStoppedByARunnerBeforeIsContinuedWhenTheStoreDoesNotSayPaused) {
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached, -1 - 30);
  lanes.begin(task);
  settle(task);
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGCONT});
  EXPECT_EQ(record.bays[0].limit_clock, 99 - 30) << "it has run for 30 s, and stood for the rest";
  EXPECT_TRUE(orphans->next_look());
  orphans->look_after();
  EXPECT_EQ(lanes.signals.size(), 1u) << "once";
}

TEST_F(OrphansTest, WhatTheStoreSaysIsPausedIsStoppedAndItsLimitStandsStill) {
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached);
  lanes.begin(task);
  alter(task.job, port::Verb::pause);
  settle(store->running().at(0));
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGSTOP});
  EXPECT_EQ(record.bays[0].limit_clock, -1 - 99);
}

// Somebody may have let it go on: a CONT of the kernel.
TEST_F(OrphansTest, WhatIsPausedIsToldSoAgainAndAgainInPausesThatGrow) {
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached);
  lanes.begin(task);
  alter(task.job, port::Verb::pause);
  settle(store->running().at(0));
  std::vector<Millis> pauses;
  for (int i = 0; i < 3; ++i) {
    const auto next = orphans->next_look();
    ASSERT_TRUE(next);
    clock.now = *next;                           // as the runner does
    orphans->look_after();
    ASSERT_EQ(lanes.signals, std::vector<int>(static_cast<std::size_t>(i) + 2, SIGSTOP));
    pauses.push_back(std::chrono::ceil<Millis>(*orphans->next_look() - *next));
  }
  EXPECT_GT(pauses.back(), pauses.front());
  alter(task.job, port::Verb::proceed);
  orphans->look_after();
  EXPECT_EQ(lanes.signals.back(), SIGCONT);
}

TEST_F(OrphansTest, ALimitGoesByTheStartOfTheCommandAndNotByTheClock) {
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached);
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const std::int64_t ticks = ::sysconf(_SC_CLK_TCK), half_a_second = ticks / 2;
  const std::int64_t started = now.tv_sec * ticks + now.tv_nsec * ticks / 1'000'000'000 - 30 * ticks - half_a_second;
  if (started <= 0) GTEST_SKIP() << "this machine has been up for less than 31 s";
  record.commands[0].start_ticks = static_cast<std::uint64_t>(started);
  record.command_seals[0] = model::command_seal(record, 0);
  lanes.begin(task);
  alter(task.job, port::Verb::pause);
  settle(store->running().at(0));
  EXPECT_LE(record.bays[0].limit_clock, -1 - 30);
  EXPECT_GT(record.bays[0].limit_clock, -1 - 90) << "99 s by the clock";
}

// A lane of an earlier build leaves there what one before it has noted.
TEST_F(OrphansTest, TheStartOfTheCommandOfAnotherRunSaysNothing) {
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached);
  record.commands[0] = {1, 77};
  record.command_seals[0] = model::command_seal(record, 0);
  ++record.bays[0].started_ms;
  lanes.begin(task);
  alter(task.job, port::Verb::pause);
  settle(store->running().at(0));
  EXPECT_EQ(record.bays[0].limit_clock, -1 - 98) << "by the clock";
}

TEST_F(OrphansTest, WhatIsGoneWhenItsTimeIsOverWasNotEndedForThat) {
  Fd lock(::eventfd(0, EFD_CLOEXEC));
  lanes.on_look = [&] { return Fd(::fcntl(lock.get(), F_DUPFD_CLOEXEC, 3)); };
  port::Submission submission = job();
  submission.terms.time = Seconds{50};           // it began 99 s ago
  const model::Task task = one_left_running(submission, model::TaskPhase::reached);
  settle(task);
  EXPECT_EQ(lanes.signals.at(0), SIGINT) << "for what it cannot see";
  ::eventfd_write(lock.get(), 1);
  orphans->look_after();
  EXPECT_TRUE(orphans->empty());
  EXPECT_THAT(reason(task), testing::Not(testing::HasSubstr("time limit")));
}

TEST_F(OrphansTest, WhatWasEndedAtItsLimitIsToldSo) {
  port::Submission submission = job();
  submission.terms.time = Seconds{50};
  const model::Task task = one_left_running(submission, model::TaskPhase::reached);
  lanes.begin(task);
  settle(task);
  lanes.end(task);
  orphans->look_after();
  EXPECT_THAT(reason(task), testing::HasSubstr("time limit"));
}

// Whoever keeps killing runners does not keep it alive.
TEST_F(OrphansTest, AnotherRunnerGoesOnWithTheEndThatOneHasBegun) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  const Millis patience = store->spec(task.job).patience;
  lanes.begin(task);
  alter(task.job, port::Verb::cancel);
  settle(task);
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT}));
  lanes.signals.clear();
  by_another_runner(task, patience / 2);
  EXPECT_THAT(lanes.signals, testing::IsEmpty()) << "it has been told, and has half of its time yet";
  ASSERT_TRUE(orphans->next_look());
  EXPECT_LE(*orphans->next_look(), clock.now + patience / 2);
  by_another_runner(task, patience / 2);
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGTERM, SIGCONT}));
  lanes.signals.clear();
  by_another_runner(task, patience);
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGKILL});
  by_another_runner(task);
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGKILL}) << "KILL, too, is told again after its time only";
}

TEST_F(OrphansTest, WhatOneRunnerHasEndedAtItsLimitTheNextOneTellsSo) {
  port::Submission submission = job();
  submission.terms.time = Seconds{50};           // it began 99 s ago
  const model::Task task = one_left_running(submission, model::TaskPhase::reached);
  lanes.begin(task);
  settle(task);
  by_another_runner(task);
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT})) << "by the first one";
  lanes.end(task);
  orphans->look_after();
  EXPECT_THAT(reason(task), testing::HasSubstr("time limit"));
}

// Another queue's file has had this directory: its first job is job 1, too.
TEST_F(OrphansTest, HowTheEndOfARunWentThatHadTheSameNumberSaysNothing) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  lanes.begin(task);
  alter(task.job, port::Verb::cancel);
  settle(task);
  ASSERT_EQ(record.endings[0].steps.load(), 1u);
  record.bays[0].started_ms += 1;
  lanes.signals.clear();
  by_another_runner(task, Millis{3'600'000});
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT})) << "and not TERM";
  lanes.signals.clear();
  orphans.emplace(ports).of_queue(HashKey{1, 2}, 0);
  record.endings[0].told_ms -= 3'600'000;
  settle(task);
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT})) << "of another secret";
}

// A full disk has no room for how far its end is.
TEST_F(OrphansTest, WhatTheRecordCannotBeToldIsDoneAllTheSame) {
  const Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
  lanes.record_file = full.get();
  port::Submission submission = job();
  submission.spec.patience = Seconds{0};
  const model::Task task = one_left_running(submission, model::TaskPhase::reached);
  lanes.begin(task);
  alter(task.job, port::Verb::cancel);
  settle(task);
  orphans->look_after();
  orphans->look_after();
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT, SIGTERM, SIGCONT, SIGKILL}));
  EXPECT_EQ(record.endings[0].steps.load(), 0u);
  EXPECT_TRUE(orphans->next_look()) << "it is written later";
  EXPECT_THAT(said, testing::ElementsAre(testing::HasSubstr("No space left")));
}

TEST_F(OrphansTest, HowLongAPausedOneHasRunIsKnownAlsoWhereTheRecordCannotBeTold) {
  const Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
  lanes.record_file = full.get();
  const model::Task task = one_left_running(limited(), model::TaskPhase::reached, 5);
  lanes.begin(task);
  alter(task.job, port::Verb::pause);
  settle(task);
  alter(task.job, port::Verb::proceed);
  orphans->look_after();
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGSTOP, SIGCONT}));
  EXPECT_EQ(record.bays[0].limit_clock, 5);
  EXPECT_THAT(said, testing::ElementsAre(testing::HasSubstr("No space left")));
}

TEST_F(OrphansTest, AStepOfItsEndThatCouldNotBeMadeIsMadeLater) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  lanes.begin(task);
  settle(task);
  alter(task.job, port::Verb::cancel);
  lanes.signals.clear();
  lanes.cannot_be_signalled = true;
  for (int i = 0; i < 3; ++i) orphans->look_after();
  EXPECT_EQ(said.size(), 1u) << "it is told once";
  EXPECT_TRUE(orphans->ends().empty()) << "they would call for a look all the time";
  ASSERT_TRUE(orphans->next_look());
  EXPECT_GT(*orphans->next_look(), clock.now);
  lanes.cannot_be_signalled = false;
  orphans->look_after();
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT}));
  EXPECT_FALSE(orphans->ends().empty());
}

}  // namespace
}  // namespace thole::host
