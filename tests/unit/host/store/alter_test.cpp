#include <gmock/gmock.h>

#include <time.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::After;
using model::TaskState;
using port::Verb;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Alter = QueueTest;

TEST_F(Alter, CancelledBeforeItsStartATaskIsNotTaken) {
  const auto id = submit(3);
  EXPECT_EQ(alter(id, Verb::cancel).at(0).changed, 3u);
  EXPECT_THAT(take(id), IsEmpty());
  EXPECT_THAT(candidate_ids(), IsEmpty());
  EXPECT_EQ(count(id, TaskState::cancelled), 3u);
  EXPECT_EQ(look(id).ended, at(3));
}

TEST_F(Alter, ARunningTaskIsAskedToEndAndItsLaneIsNamed) {
  const auto id = submit(3);
  take(id);
  const auto altered = alter(id, Verb::cancel).at(0);
  EXPECT_EQ(altered.changed, 3u);
  ASSERT_EQ(altered.running.size(), 1u);
  EXPECT_EQ(altered.running[0].lane, 7u);
  EXPECT_TRUE(altered.running[0].cancel_asked);
  EXPECT_TRUE(store->running().at(0).cancel_asked);
}

TEST_F(Alter, WhoIsAskedToEndDoesNotRunAgain) {
  const auto id = submit();
  take(id);
  alter(id, Verb::cancel);
  EXPECT_THAT(finish(id, 0, TaskState::queued, at(4), at(60)).ended, ElementsAre(id));
  EXPECT_EQ(store->task(id, 0)->state, TaskState::cancelled);
}

TEST_F(Alter, WhatWasDoneBeforeItCouldBeCancelledIsDone) {
  const auto id = submit();
  take(id);
  alter(id, Verb::cancel);
  finish(id, 0, TaskState::done);
  EXPECT_EQ(count(id, TaskState::done), 1u);
}

TEST_F(Alter, SomeTasksAreCancelledAndTheOthersGo) {
  const auto id = submit(6);
  take(id);
  EXPECT_EQ(alter(id, 2, 3, Verb::cancel).at(0).changed, 2u);
  EXPECT_EQ(alter(id, 2, 3, Verb::cancel).size(), 0u);
  EXPECT_EQ(take(id).at(0).index, 1u);
  EXPECT_EQ(take(id).at(0).index, 4u);
  EXPECT_EQ(take(id).at(0).index, 5u);
  EXPECT_THAT(take(id), IsEmpty());
  EXPECT_EQ(count(id, TaskState::cancelled), 2u);
}

TEST_F(Alter, TasksBeyondTheLastAreNoTasks) {
  const auto id = submit(3);
  EXPECT_EQ(alter(id, 2, 99, Verb::cancel).at(0).changed, 1u);
  EXPECT_THAT(alter(id, 3, 99, Verb::cancel), IsEmpty());
  EXPECT_EQ(look(id).counts.total(), 3u);
}

TEST_F(Alter, AJobThatIsHeldWaitsUntilItIsResumed) {
  const auto id = submit(2);
  EXPECT_EQ(alter(id, Verb::hold).at(0).changed, 2u);
  EXPECT_THAT(alter(id, Verb::hold), IsEmpty());
  EXPECT_TRUE(look(id).terms.held);
  EXPECT_THAT(take(id), IsEmpty());
  EXPECT_EQ(alter(id, Verb::resume).at(0).changed, 2u);
  EXPECT_EQ(take(id).size(), 1u);
}

TEST_F(Alter, HoldingKeepsWhatRuns) {
  const auto id = submit(2);
  take(id);
  alter(id, Verb::hold);
  finish(id, 0, TaskState::done);
  EXPECT_EQ(count(id, TaskState::done), 1u);
  EXPECT_FALSE(look(id).ended);
}

TEST_F(Alter, ATaskThatIsHeldWaitsUntilItIsResumed) {
  const auto id = submit(2);
  EXPECT_EQ(alter(id, 0, 0, Verb::hold).at(0).changed, 1u);
  EXPECT_EQ(take(id).at(0).index, 1u);
  EXPECT_THAT(take(id), IsEmpty());
  EXPECT_THAT(candidate_ids(), IsEmpty());
  EXPECT_EQ(alter(id, 0, 1, Verb::resume).at(0).changed, 1u);
  EXPECT_EQ(take(id).at(0).index, 0u);
}

TEST_F(Alter, PausedIsAMarkOfARunningTask) {
  const auto id = submit(2);
  take(id);
  EXPECT_EQ(alter(id, Verb::pause).at(0).running.size(), 1u);
  EXPECT_TRUE(store->task(id, 0)->paused);
  alter(id, Verb::proceed);
  EXPECT_FALSE(store->task(id, 0)->paused);
  alter(id, Verb::pause);
  finish(id, 0, TaskState::failed);
  EXPECT_FALSE(store->task(id, 0)->paused);
}

TEST_F(Alter, WhatIsBeingEndedIsNotPaused) {
  const auto id = submit(2);
  take(id, 2);
  alter(id, 1, 1, Verb::cancel);
  EXPECT_EQ(alter(id, Verb::pause).at(0).changed, 1u);
  EXPECT_TRUE(store->task(id, 0)->paused);
  EXPECT_FALSE(store->task(id, 1)->paused);
}

TEST_F(Alter, RetryQueuesWhatDidNotSucceed) {
  const auto id = submit(4);
  take(id, 3);
  finish(id, 0, TaskState::done);
  finish(id, 1, TaskState::failed);
  finish(id, 2, TaskState::lost);
  alter(id, Verb::cancel);
  EXPECT_TRUE(look(id).ended);
  EXPECT_EQ(alter(id, Verb::retry).at(0).changed, 3u);
  EXPECT_FALSE(look(id).ended);
  const auto again = take(id, 4);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].index, 1u);
  EXPECT_EQ(again[0].runs, 2u);
  EXPECT_EQ(again[0].tries, 1u);
  EXPECT_EQ(again[2].index, 3u);
  EXPECT_EQ(store->task(id, 1)->exit_code, std::nullopt);
}

TEST_F(Alter, RetryOfAJobOfWhichNothingWasLeftLiftsItsHold) {
  const auto id = submit(2), other = submit(2);
  for (const auto one : {id, other}) {
    alter(one, Verb::hold);
    alter(one, Verb::cancel);
  }
  EXPECT_EQ(alter(id, Verb::retry).at(0).changed, 2u);
  EXPECT_FALSE(look(id).terms.held);
  EXPECT_THAT(candidate_ids(), ElementsAre(id));
  alter(other, 1, 1, Verb::retry);               // one task of it as well
  EXPECT_THAT(candidate_ids(), ElementsAre(id, other));
}

TEST_F(Alter, RetryLeavesTheHoldOfWhatIsStillQueued) {
  const auto id = submit(2);
  take(id);
  finish(id, 0, TaskState::failed);
  alter(id, Verb::hold);
  EXPECT_EQ(alter(id, Verb::retry).at(0).changed, 1u);
  EXPECT_TRUE(look(id).terms.held);
  EXPECT_THAT(candidate_ids(), IsEmpty());
}

TEST_F(Alter, ADoneTaskRunsAgainOnlyWhenItIsNamed) {
  const auto id = submit(2);
  run_all(id);
  EXPECT_THAT(alter(id, Verb::retry), IsEmpty());
  EXPECT_EQ(alter(id, 1, 1, Verb::retry).at(0).changed, 1u);
  EXPECT_EQ(take(id).at(0).index, 1u);
}

TEST_F(Alter, ASkippedJobAsksAgainWhatItWaitsFor) {
  const auto first = submit();
  port::Submission next = job();
  next.terms.after = {{first, After::ok}};
  const auto id = submit(next);
  run_all(first, TaskState::failed);
  ASSERT_EQ(count(id, TaskState::skipped), 1u);
  try {
    alter(id, Verb::retry);
    FAIL() << "it cannot run";
  } catch (const Error& error) {
    EXPECT_THAT(error.full(), HasSubstr("job 2 waits for job 1 (ok)"));
    EXPECT_THAT(error.hint(), HasSubstr("thole retry 1 first"));
  }
  alter(first, Verb::retry);
  alter(id, Verb::retry);
  EXPECT_THAT(candidate_ids(), ElementsAre(first));
  run_all(first);
  EXPECT_THAT(candidate_ids(), ElementsAre(id));
}

TEST_F(Alter, AJobThatWaitsForAFailureIsNotMendedByRunningTheOtherAgain) {
  const auto first = submit();
  port::Submission next = job();
  next.terms.after = {{first, After::fail}};
  const auto id = submit(next);
  run_all(first);
  ASSERT_EQ(count(id, TaskState::skipped), 1u);
  try {
    alter(id, Verb::retry);
    FAIL() << "it cannot run";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "thole edit 2 --after none");
  }
}

TEST_F(Alter, AmongOthersAJobThatWaitsInVainStaysAndKeepsNobody) {
  const auto first = submit();
  port::Submission next = job();
  next.terms.after = {{first, After::fail}};
  const auto id = submit(next), failed = submit();
  run_all(first);
  run_all(failed, TaskState::failed);
  const port::Selection all{1, 3, std::nullopt};
  const auto altered = store->alter({&all, 1}, Verb::retry, at(2));
  ASSERT_EQ(altered.size(), 2u);
  EXPECT_EQ(altered[0].job, id);
  EXPECT_EQ(altered[0].changed, 0u);
  EXPECT_THAT(altered[0].stays, HasSubstr("waits for job 1 (fail), which has ended otherwise"));
  EXPECT_EQ(altered[1].changed, 1u);
  EXPECT_EQ(count(id, TaskState::skipped), 1u);
  EXPECT_THAT(candidate_ids(), ElementsAre(failed));
}

TEST_F(Alter, ARangeOfJobs) {
  for (int i = 0; i < 5; ++i) submit();
  const port::Selection some{2, 4, std::nullopt};
  EXPECT_EQ(store->alter({&some, 1}, Verb::cancel, at(1)).size(), 3u);
  EXPECT_THAT(candidate_ids(), ElementsAre(1, 5));
}

// Most of a range can be cancelled by one statement; what has begun, what has a history and what others wait for cannot.
TEST_F(Alter, ARangeOfJobsInAllStates) {
  const auto plain = submit(3), begun = submit(2), failed = submit(2), waited_for = submit(1);
  port::Submission waits = job();
  waits.terms.after = {{waited_for, After::any}};
  const auto waiting = submit(waits), later = submit(1);
  port::TermsChange change;
  change.begin = at(500);
  store->edit({&later, 1}, change, at(1));
  take(begun);
  run_all(failed, TaskState::failed);
  alter(failed, Verb::retry);
  const port::Selection twice[] = {{plain, plain, std::nullopt}, {plain, later, std::nullopt}};
  const auto altered = store->alter(twice, Verb::cancel, at(2));
  std::vector<model::JobId> ids;
  for (const port::Altered& one : altered) ids.push_back(one.job);
  EXPECT_THAT(ids, ElementsAre(plain, begun, failed, waited_for, waiting, later));
  EXPECT_EQ(altered[1].running.size(), 1u);
  EXPECT_THAT(candidate_ids(at(1'000)), IsEmpty());
  EXPECT_EQ(store->next_due(at(2)), std::nullopt);
  EXPECT_EQ(count(plain, TaskState::cancelled), 3u);
  EXPECT_EQ(store->task(plain, 1)->state, TaskState::cancelled);
  EXPECT_EQ(look(plain).ended, at(2));
  EXPECT_EQ(look(begun).ended, std::nullopt);
  alter(plain, Verb::retry);
  EXPECT_THAT(candidate_ids(), ElementsAre(plain));
  EXPECT_EQ(take(plain, 9).size(), 3u);
}

// By the time that this thread was running, not by the clock.
double cpu_seconds(const std::function<void()>& what) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  what();
  return now() - begin;
}

// Four times as many cost about four times as much: sixteen times would be each by all others. Least of some tries.
TEST_F(Alter, TheCostOfCancellingGrowsAsTheNumberOfJobsAndOfTasks) {
  const auto least = [this](std::uint64_t jobs, std::uint64_t tasks) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const std::vector<port::Submission> many(jobs, job(tasks));
      const auto first = store->submit(many, at(0)).front().id, last = first + jobs - 1;
      port::Selection which{first, last, std::nullopt};
      if (jobs == 1) which.tasks = {0, tasks / 2};
      std::size_t altered = 0;
      best = std::min(best, cpu_seconds([&] { altered = store->alter({&which, 1}, Verb::cancel, at(1)).size(); }));
      EXPECT_EQ(altered, jobs);
    }
    return best;
  };
  EXPECT_LT(least(12'000, 1), 10 * least(3'000, 1));
  EXPECT_LT(least(1, 80'000), 10 * least(1, 20'000));
}

class Edit : public QueueTest {
 protected:
  void edit(model::JobId id, const port::TermsChange& change, WallTime now) { store->edit({&id, 1}, change, now); }
};

TEST_F(Edit, ChangesTheTermsOfWhatHasNotStarted) {
  const auto a = submit(), b = submit(2);
  port::TermsChange change;
  change.priority = 3;
  change.at_most = 1;
  change.time = Seconds(60);
  edit(b, change, at(1));
  EXPECT_THAT(candidate_ids(), ElementsAre(b, a));
  const auto taken = take(b, 2);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].time, Seconds(60));
  EXPECT_EQ(store->spec(b).request.time, Seconds(60));
  change = {};
  change.begin = at(50);
  edit(a, change, at(1));
  EXPECT_EQ(store->next_due(at(1)), at(50));
  change.begin = std::optional<WallTime>();
  edit(a, change, at(1));
  EXPECT_THAT(candidate_ids(), ElementsAre(a));
}

TEST_F(Edit, WhatHasEndedIsNotChanged) {
  const auto id = submit();
  run_all(id);
  EXPECT_THROW(edit(id, {}, at(1)), Error);
  EXPECT_THROW(edit(99, {}, at(1)), Error);
}

TEST_F(Edit, OfSeveralAllAreChangedOrNone) {
  const auto first = submit(), second = submit();
  run_all(second);
  port::TermsChange change;
  change.priority = 3;
  const model::JobId both[] = {first, second};
  EXPECT_THROW(store->edit(both, change, at(1)), Error);
  EXPECT_EQ(look(first).terms.priority, 0);
}

TEST_F(Edit, ACycleOfDependenciesIsNamed) {
  const auto a = submit(), b = submit(), c = submit();
  port::TermsChange change;
  change.after = {{a, After::ok}};
  edit(b, change, at(1));
  change.after = {{b, After::any}};
  edit(c, change, at(1));
  for (auto [job, on, text] :
       {std::tuple(a, c, "job 1 cannot wait for job 3, which waits for it"), std::tuple(a, a, "cannot wait for itself")}) {
    change.after = {{on, After::ok}};
    try {
      edit(job, change, at(1));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.full(), HasSubstr(text));
    }
  }
  EXPECT_THAT(look(a).terms.after, IsEmpty());
  change.after.emplace();
  edit(b, change, at(1));
  EXPECT_THAT(candidate_ids(), ElementsAre(a, b));
}

TEST_F(Edit, ASkippedJobMayBeGivenOtherDependencies) {
  const auto first = submit();
  port::Submission next = job();
  next.terms.after = {{first, After::ok}};
  const auto id = submit(next);
  run_all(first, TaskState::failed);
  port::TermsChange change;
  change.after.emplace();
  edit(id, change, at(5));
  alter(id, Verb::retry);
  EXPECT_THAT(candidate_ids(), ElementsAre(id));
}

using Prune = QueueTest;

TEST_F(Prune, ForgetsWhatEndedLongAgo) {
  const auto old = submit(job(3, "old"), at(0));
  run_all(old);
  const auto waiting = submit();
  port::Submission late = job();
  const auto young = submit(late);
  take(young);
  finish(young, 0, TaskState::done, at(90));
  port::Keep keep;
  keep.ended_for = Seconds(50);
  EXPECT_THAT(store->prune(keep, at(100)), ElementsAre(old));
  ASSERT_EQ(store->jobs({}).size(), 2u);
  EXPECT_FALSE(store->task(old, 0));
  EXPECT_EQ(store->jobs({}).at(0).id, waiting);
}

TEST_F(Prune, KeepsTheNewestSoMany) {
  for (int i = 0; i < 5; ++i) run_all(submit());
  port::Keep keep;
  keep.jobs = 2;
  EXPECT_THAT(store->prune(keep, at(100)), ElementsAre(1, 2, 3));
}

TEST_F(Prune, KeepsWhatSomebodyWaitsFor) {
  const auto a = submit(), b = submit();
  port::Submission last = job();
  last.terms.after = {{a, After::any}, {b, After::any}};
  submit(last);
  run_all(a);
  port::Keep keep;
  keep.jobs = 0;
  EXPECT_THAT(store->prune(keep, at(100)), IsEmpty());
}

TEST_F(Prune, ALargeJobGoesPieceByPiece) {
  const auto id = submit(25);
  run_all(id);
  port::Keep keep;
  keep.jobs = 0;
  keep.at_once = 10;
  EXPECT_THAT(store->prune(keep, at(100)), IsEmpty());
  EXPECT_THAT(store->prune(keep, at(100)), IsEmpty());
  EXPECT_THAT(store->prune(keep, at(100)), ElementsAre(id));
}

TEST_F(Prune, ANumberIsNeverGivenTwice) {
  run_all(submit());
  port::Keep keep;
  keep.jobs = 0;
  store->prune(keep, at(100));
  EXPECT_EQ(submit(), 2u);
}

}  // namespace thole::host
