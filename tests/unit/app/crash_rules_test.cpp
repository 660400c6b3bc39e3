#include "app/queue/crash_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace thole::app {
namespace {

using model::TaskPhase;
using model::TaskState;

using model::Boot;

const WallTime now{Millis{5'000}};

model::Task running(model::JobId job, model::TaskIndex index, unsigned runs) {
  model::Task task;
  task.job = job;
  task.index = index;
  task.state = TaskState::running;
  task.runs = runs;
  task.tries = 1;
  return task;
}

std::unique_ptr<model::LaneRecord> record(TaskPhase phase, model::JobId job, model::TaskIndex task, std::uint32_t runs) {
  auto made = std::make_unique<model::LaneRecord>();
  made->magic = model::lane_magic;
  auto& bay = made->bays[3];
  bay.phase.store(phase);
  bay.job = job;
  bay.task = task;
  bay.runs = runs;
  bay.exit_code = 7;
  bay.signal = -1;
  bay.ended_ms = 4'000;
  return made;
}

TaskState state_after(const model::LaneRecord* record, const model::Task& task, Boot boot = Boot::this_one) {
  return end_of(task, remains_of(task, record, boot), {}, now).state;
}

TEST(CrashRules, WhatTheRecordDoesNotNameHasNeverBegun) {
  const auto of_another = record(TaskPhase::reached, 1, 2, 1);
  EXPECT_EQ(state_after(of_another.get(), running(1, 3, 1)), TaskState::queued);
  EXPECT_EQ(state_after(of_another.get(), running(1, 2, 2)), TaskState::queued);   // an earlier start of it
  EXPECT_TRUE(end_of(running(1, 3, 1), NeverBegan{}, {}, now).unstarted);
}

TEST(CrashRules, WhatWasTakenAndNotReachedIsQueuedAgain) {
  EXPECT_EQ(state_after(record(TaskPhase::taken, 1, 2, 1).get(), running(1, 2, 1)), TaskState::queued);
}

TEST(CrashRules, AnEndInTheRecordIsTheEnd) {
  const auto ended = record(TaskPhase::ended, 1, 2, 1);
  const port::TaskEnd end = end_of(running(1, 2, 1), remains_of(running(1, 2, 1), ended.get(), Boot::this_one), {}, now);
  EXPECT_EQ(end.state, TaskState::failed);
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(end.at, WallTime{Millis{4'000}});
}

TEST(CrashRules, AnEndOfAnotherBootCountsWithItsSealOnly) {
  const auto ended = record(TaskPhase::ended, 1, 2, 1);
  EXPECT_EQ(state_after(ended.get(), running(1, 2, 1), Boot::another), TaskState::lost);
  ended->bays[3].seal = model::end_seal(ended->bays[3]);
  EXPECT_EQ(state_after(ended.get(), running(1, 2, 1), Boot::another), TaskState::failed);
  ended->bays[3].exit_code = 0;                  // a sector of another moment
  EXPECT_EQ(state_after(ended.get(), running(1, 2, 1), Boot::another), TaskState::lost);
}

// The record is memory that the kernel writes to the disk when it likes.
TEST(CrashRules, ARecordOfAnotherBootNeverProvesThatSomethingHasNotBegun) {
  const auto of_another = record(TaskPhase::reached, 1, 3, 1), taken = record(TaskPhase::taken, 1, 2, 1);
  for (const model::LaneRecord* stale : {of_another.get(), taken.get()}) {
    const Remains remains = remains_of(running(1, 2, 1), stale, Boot::another);
    ASSERT_TRUE(std::holds_alternative<Unknown>(remains));
    EXPECT_EQ(std::get<Unknown>(remains).boot, Boot::another);
    EXPECT_EQ(state_after(stale, running(1, 2, 1), Boot::another), TaskState::lost);
  }
}

// `cp -a` copies one file after the other.
TEST(CrashRules, ACopyOfARecordNeverProvesThatSomethingHasNotBegun) {
  const auto of_another = record(TaskPhase::reached, 1, 3, 1), taken = record(TaskPhase::taken, 1, 2, 1);
  for (const model::LaneRecord* copy : {of_another.get(), taken.get()}) {
    const Remains remains = remains_of(running(1, 2, 1), copy, Boot::this_one, 0, true);
    ASSERT_TRUE(std::holds_alternative<Unknown>(remains));
    EXPECT_EQ(std::get<Unknown>(remains).boot, Boot::this_one) << "what lives of it is looked for";
    EXPECT_TRUE(std::holds_alternative<Untold>(remains_of(running(1, 2, 1), copy, Boot::untold, 0, true)));
  }
  const auto ended = record(TaskPhase::ended, 1, 2, 1);
  EXPECT_TRUE(std::holds_alternative<Unknown>(remains_of(running(1, 2, 1), ended.get(), Boot::this_one, 0, true)))
      << "its sectors may be of different moments";
  ended->bays[3].seal = model::end_seal(ended->bays[3]);
  EXPECT_TRUE(std::holds_alternative<Ended>(remains_of(running(1, 2, 1), ended.get(), Boot::this_one, 0, true)));
}

// A container has a boot id of its own: what would be queued again under this boot may have begun under another.
TEST(CrashRules, WhereTheBootIsNotToldNothingIsSaidOfWhatHasNotBegun) {
  const auto taken = record(TaskPhase::taken, 1, 2, 1), reached = record(TaskPhase::reached, 1, 2, 1);
  EXPECT_TRUE(std::holds_alternative<Untold>(remains_of(running(1, 2, 1), taken.get(), Boot::untold)));
  EXPECT_TRUE(std::holds_alternative<Untold>(remains_of(running(1, 3, 1), taken.get(), Boot::untold)));
  EXPECT_EQ(std::get<Unknown>(remains_of(running(1, 2, 1), reached.get(), Boot::untold)).boot, Boot::untold);
  const auto ended = record(TaskPhase::ended, 1, 2, 1);
  EXPECT_TRUE(std::holds_alternative<Unknown>(remains_of(running(1, 2, 1), ended.get(), Boot::untold)));
  ended->bays[3].seal = model::end_seal(ended->bays[3]);
  EXPECT_TRUE(std::holds_alternative<Ended>(remains_of(running(1, 2, 1), ended.get(), Boot::untold)));
  model::Task nowhere = running(1, 2, 1);
  nowhere.lane = model::lane_of_untold;
  EXPECT_TRUE(std::holds_alternative<Untold>(remains_of(nowhere, nullptr, Boot::this_one)));
}

TEST(CrashRules, WhatTheRecordKnowsOfPeaksIsKeptAndAZeroIsNotKnown) {
  const auto ended = record(TaskPhase::ended, 1, 2, 1);
  const auto end = [&] { return end_of(running(1, 2, 1), remains_of(running(1, 2, 1), ended.get(), Boot::this_one), {}, now); };
  EXPECT_EQ(end().peak_memory_mib, std::nullopt);
  EXPECT_EQ(end().peak_gpu_memory_mib, std::nullopt);
  ended->bays[3].peak_memory_kib = 2'049;
  ended->bays[3].peak_gpu_mib = 4'321;
  EXPECT_EQ(end().peak_memory_mib, 3u);
  EXPECT_EQ(end().peak_gpu_memory_mib, 4'321u);
}

TEST(CrashRules, WhatWasReachedIsUnknownUntilNothingOfItLives) {
  const auto reached = record(TaskPhase::reached, 1, 2, 1);
  const Remains here = remains_of(running(1, 2, 1), reached.get(), Boot::this_one);
  ASSERT_TRUE(std::holds_alternative<Unknown>(here));
  EXPECT_EQ(std::get<Unknown>(here).boot, Boot::this_one);
  EXPECT_EQ(std::get<Unknown>(remains_of(running(1, 2, 1), reached.get(), Boot::another)).boot, Boot::another);
  EXPECT_EQ(state_after(reached.get(), running(1, 2, 1)), TaskState::lost);
}

TEST(CrashRules, WithoutARecordNobodyKnows) {
  EXPECT_EQ(state_after(nullptr, running(1, 2, 1)), TaskState::lost);
  model::LaneRecord empty{};
  EXPECT_EQ(state_after(&empty, running(1, 2, 1)), TaskState::lost);
}

TEST(CrashRules, ARunKnowsItsBayInTheRecord) {
  const auto made = record(TaskPhase::reached, 7, 2, 1);
  EXPECT_EQ(bay_of(running(7, 2, 1), made.get()), &made->bays[3]);
  EXPECT_EQ(bay_of(running(7, 2, 2), made.get()), nullptr);
  EXPECT_EQ(bay_of(running(7, 2, 1), nullptr), nullptr);
}

TEST(CrashRules, APauseStopsTheClockOfALimit) {
  model::LaneBay bay{};
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{100});
  bay.limit_clock = model::limit_clock(true, Millis{10'900}, Seconds{0});     // paused after 10.9 s
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{10});
  bay.limit_clock = model::limit_clock(true, Seconds{0}, Seconds{0});
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{0});
  bay.limit_clock = model::limit_clock(false, Seconds{10}, Millis{89'100});     // never too early
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{10});
  bay.limit_clock = model::limit_clock(false, Seconds{0}, Millis{std::numeric_limits<std::int64_t>::max() / 2});
  EXPECT_LT(model::has_run(bay.limit_clock, Seconds{100}), Seconds{0});
  bay.limit_clock = model::limit_clock(true, Millis{-5'000}, Seconds{0});     // given 5 s more than it had run
  EXPECT_LT(bay.limit_clock, 0);
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{-5});
  bay.limit_clock = model::limit_clock(false, Seconds{0}, Seconds{-7});      // given 7 s less
  EXPECT_GT(bay.limit_clock, 0);
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), Seconds{107});
  bay.limit_clock = model::limit_clock(true, -std::chrono::hours{24 * 3650}, Seconds{0});
  EXPECT_EQ(model::has_run(bay.limit_clock, Seconds{100}), -std::chrono::hours{24 * 3650});
}

TEST(CrashRules, OnlyRetryLostRunsALostTaskAgain) {
  model::Retry failures, lost;
  failures.times = lost.times = 1;
  failures.any_failure = true;
  lost.lost = true;
  EXPECT_EQ(end_of(running(1, 2, 1), Unknown{}, failures, now).state, TaskState::lost);
  EXPECT_EQ(end_of(running(1, 2, 1), Unknown{}, lost, now).state, TaskState::queued);
}

}  // namespace
}  // namespace thole::app
