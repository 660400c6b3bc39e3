#include <gmock/gmock.h>

#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::After;
using model::TaskState;
using port::Verb;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Work = QueueTest;

TEST_F(Work, TasksAreTakenInOrderAndOnce) {
  const auto id = submit(3);
  EXPECT_EQ(take(id).at(0).index, 0u);
  const auto two = take(id, 5);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].index, 1u);
  EXPECT_EQ(two[1].index, 2u);
  EXPECT_EQ(two[1].bay, 1u);
  EXPECT_THAT(take(id), IsEmpty());
  EXPECT_EQ(count(id, TaskState::running), 3u);
}

TEST_F(Work, WhatIsKnownOfARunningTaskIsKept) {
  const auto id = submit(2);
  take(id);
  const auto running = store->running();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].lane, 7u);
  EXPECT_EQ(running[0].runs, 1u);
  EXPECT_EQ(running[0].started, at(1));
  EXPECT_EQ(running[0].log, "1.log");
  EXPECT_EQ(running[0].log_offset, 100u);
  EXPECT_THAT(running[0].gpus, ElementsAre("GPU-a", "GPU-b"));
}

TEST_F(Work, AnEndIsKeptAndTheJobEndsWithItsLastTask) {
  const auto id = submit(2);
  take(id, 2);
  EXPECT_THAT(finish(id, 0, TaskState::failed).ended, IsEmpty());
  EXPECT_FALSE(look(id).ended);
  EXPECT_THAT(finish(id, 1, TaskState::done, at(9)).ended, ElementsAre(id));
  const model::Job job = look(id);
  EXPECT_EQ(job.ended, at(9));
  EXPECT_EQ(job.started, at(1));
  EXPECT_EQ(job.busy, Millis(9000));
  EXPECT_EQ(job.ran, 2u);
  EXPECT_EQ(store->task(id, 0)->exit_code, 1);
  EXPECT_EQ(store->task(id, 1)->state, TaskState::done);
}

TEST_F(Work, AnEndToldTwiceCountsOnce) {
  const auto id = submit(2);
  take(id);
  finish(id, 0, TaskState::done);
  finish(id, 0, TaskState::failed);
  EXPECT_EQ(count(id, TaskState::done), 1u);
  EXPECT_EQ(count(id, TaskState::failed), 0u);
}

TEST_F(Work, TheEndOfAnEarlierRunDoesNotEndALaterOne) {
  const auto id = submit();
  take(id);
  finish(id, 0, TaskState::queued);
  ASSERT_EQ(take(id).at(0).runs, 2u);
  port::TaskEnd late;
  late.job = id;
  late.runs = 1;
  store->round({&late, 1}, std::nullopt, at(5));
  EXPECT_EQ(count(id, TaskState::running), 1u);
}

TEST_F(Work, AnEndAndTheNextTaskAreOneRound) {
  const auto id = submit(2);
  take(id);
  port::TaskEnd end;
  end.job = id;
  end.at = at(2);
  port::TakeWish wish;
  wish.job = id;
  const auto round = store->round({&end, 1}, wish, at(2));
  EXPECT_EQ(round.taken.at(0).index, 1u);
  EXPECT_EQ(count(id, TaskState::done), 1u);
}

TEST_F(Work, ATaskThatNeverStartedIsQueuedAgainAndHasNotRun) {
  const auto id = submit();
  take(id);
  port::TaskEnd end;
  end.job = id;
  end.state = TaskState::queued;
  end.unstarted = true;
  store->round({&end, 1}, std::nullopt, at(2));
  EXPECT_THAT(candidate_ids(), ElementsAre(id));
  EXPECT_EQ(take(id).at(0).runs, 1u);
}

TEST_F(Work, ATaskToRunAgainWaitsForItsTime) {
  const auto id = submit();
  take(id);
  finish(id, 0, TaskState::queued, at(2), at(60));
  EXPECT_THAT(candidate_ids(at(59)), IsEmpty());
  EXPECT_THAT(take(id, 1, at(59)), IsEmpty());
  EXPECT_EQ(look(id).ready, at(60));
  EXPECT_EQ(store->next_due(at(2)), at(60));
  EXPECT_THAT(candidate_ids(at(60)), ElementsAre(id));
  const auto again = take(id, 1, at(60));
  EXPECT_EQ(again.at(0).runs, 2u);
  EXPECT_EQ(again.at(0).tries, 2u);
}

TEST_F(Work, ATaskInItsPauseDoesNotHoldUpTheOthers) {
  const auto id = submit(3);
  take(id);
  finish(id, 0, TaskState::queued, at(2), at(60));
  EXPECT_EQ(take(id, 1, at(3)).at(0).index, 1u);
  EXPECT_EQ(take(id, 1, at(61)).at(0).index, 0u);
  EXPECT_EQ(take(id, 1, at(61)).at(0).index, 2u);
}

TEST_F(Work, ByPriorityThenByAge) {
  submit();
  port::Submission urgent = job();
  urgent.terms.priority = 5;
  submit(urgent);
  submit();
  EXPECT_THAT(candidate_ids(), ElementsAre(2, 1, 3));
}

TEST_F(Work, SoManyOfEachKindOfRequest) {
  port::Submission wide = job();
  wide.spec.request.gpus = 4;
  for (int i = 0; i < 3; ++i) submit();
  submit(wide);
  EXPECT_THAT(candidate_ids(at(1), 2), ElementsAre(1, 2, 4));
}

TEST_F(Work, AtMostSoManyAtOnce) {
  port::Submission some = job(5);
  some.terms.at_most = 2;
  const auto id = submit(some);
  EXPECT_EQ(take(id, 3).size(), 2u);
  EXPECT_THAT(candidate_ids(), IsEmpty());
  EXPECT_THAT(take(id), IsEmpty());
  finish(id, 0, TaskState::done);
  EXPECT_THAT(candidate_ids(), ElementsAre(id));
  EXPECT_EQ(take(id, 3).size(), 1u);
}

TEST_F(Work, NothingGoesBeforeItsBegin) {
  port::Submission later = job();
  later.terms.begin = at(100);
  const auto id = submit(later);
  EXPECT_THAT(candidate_ids(at(99)), IsEmpty());
  EXPECT_THAT(take(id, 1, at(99)), IsEmpty());
  EXPECT_EQ(store->next_due(at(99)), at(100));
  EXPECT_EQ(store->next_due(at(100)), std::nullopt);
  EXPECT_THAT(candidate_ids(at(100)), ElementsAre(id));
}

TEST_F(Work, DrainingNothingIsTaken) {
  const auto id = submit();
  store->drain(true);
  EXPECT_TRUE(store->draining());
  EXPECT_THAT(candidate_ids(), IsEmpty());
  EXPECT_THAT(take(id), IsEmpty());
  store->drain(false);
  EXPECT_EQ(take(id).size(), 1u);
}

struct DependencyCase {
  After when;
  TaskState end;
  bool goes;
};
class Dependencies : public QueueTest, public ::testing::WithParamInterface<DependencyCase> {};
TEST_P(Dependencies, AreMetOrSkipTheJob) {
  const auto first = submit();
  port::Submission second = job();
  second.terms.after = {{first, GetParam().when}};
  const auto id = submit(second);
  EXPECT_THAT(candidate_ids(), ElementsAre(first));
  EXPECT_THAT(take(id), IsEmpty());
  take(first);
  finish(first, 0, GetParam().end);
  if (GetParam().goes) {
    EXPECT_THAT(candidate_ids(), ElementsAre(id));
  } else {
    EXPECT_THAT(candidate_ids(), IsEmpty());
    EXPECT_EQ(count(id, TaskState::skipped), 1u);
    EXPECT_TRUE(look(id).ended);
  }
  // The same when the job comes after the end.
  const auto late = submit(second);
  EXPECT_EQ(count(late, TaskState::skipped), GetParam().goes ? 0u : 1u);
}
INSTANTIATE_TEST_SUITE_P(All, Dependencies,
                         ::testing::Values(DependencyCase{After::ok, TaskState::done, true},
                                           DependencyCase{After::ok, TaskState::failed, false},
                                           DependencyCase{After::ok, TaskState::lost, false},
                                           DependencyCase{After::any, TaskState::done, true},
                                           DependencyCase{After::any, TaskState::failed, true},
                                           DependencyCase{After::fail, TaskState::failed, true},
                                           DependencyCase{After::fail, TaskState::done, false}));

TEST_F(Work, AJobThatIsSkippedSkipsThoseThatNeededIt) {
  const auto first = submit();
  port::Submission next = job(1000);
  next.terms.after = {{first, After::ok}};
  const auto second = submit(next);
  next.terms.after = {{second, After::ok}};
  const auto third = submit(next);
  next.terms.after = {{second, After::any}};
  const auto fourth = submit(next);
  take(first);
  EXPECT_THAT(finish(first, 0, TaskState::failed).ended, ElementsAre(first, second, third));
  EXPECT_EQ(count(third, TaskState::skipped), 1000u);
  EXPECT_THAT(candidate_ids(), ElementsAre(fourth));
}

TEST_F(Work, AJobWaitsForAllOfItsDependencies) {
  const auto a = submit(), b = submit();
  port::Submission last = job();
  last.terms.after = {{a, After::ok}, {b, After::any}};
  const auto id = submit(last);
  run_all(a);
  EXPECT_THAT(take(id), IsEmpty());
  run_all(b, TaskState::failed);
  EXPECT_EQ(take(id).size(), 1u);
}

// What stands in lanes' records: another device number, as after a boot, is no other file, and no later thole may tell another.
TEST_F(Work, ItsOriginIsOfWhatIsInTheFile) {
  submit();
  const std::uint32_t origin = store->origin();
  store.reset();
  const std::string copy = directory + "/copy", other = directory + "/other";
  make_queue_directory(copy);
  for (const char* name : {"/queue.db", "/queue.db-wal"}) std::filesystem::copy_file(directory + name, copy + name);
  EXPECT_EQ(SqliteJobStore(JobStoreOptions{.directory = copy}).origin(), origin);
  make_queue_directory(other);
  SqliteJobStore another(JobStoreOptions{.directory = other});
  EXPECT_NE(another.origin(), origin);
  { Database db(other + "/queue.db", nullptr); db.execute("UPDATE queue SET secret = x'000102030405060708090a0b0c0d0e0f'"); }
  EXPECT_EQ(another.origin(), 251753095u) << "SipHash-2-4 of \"origin\", its lower half, odd";
}

TEST_F(Work, GoesOnAfterItHasRested) {
  const auto id = submit(2);
  store->rest();
  EXPECT_EQ(take(id).size(), 1u);
}

}  // namespace thole::host
