// What a dead lane has left: what becomes of it, and what is told.
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

TEST_F(OrphansTest, ACommandThatIsReachedAndClosesTheLockDuringTheLookIsNotLost) {
  const model::Task task = one_left_running(job(), model::TaskPhase::taken);
  lanes.on_look = [&] {
    record.bays[0].phase.store(model::TaskPhase::reached);
    lanes.begin(task);
    return Fd();
  };
  settle(task);
  EXPECT_TRUE(orphans->contains(task));
  EXPECT_TRUE(runs_in_store());
}

TEST_F(OrphansTest, WhatNeverBeganAndNobodyHasTheLockOfIsQueuedAgain) {
  const model::Task task = one_left_running(job(), model::TaskPhase::taken);
  settle(task);
  EXPECT_FALSE(orphans->contains(task));
  EXPECT_EQ(count(task.job, model::TaskState::queued), 1u);
}

// Its lane was ours, so that it is our child now.
TEST_F(OrphansTest, TheKernelTellsHowTheCommandOfADeadLaneHasEnded) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  record.bays[0].pid = 4711;
  lanes.begin(task);
  settle(task);
  ASSERT_TRUE(orphans->contains(task));
  EXPECT_EQ(orphans->commands(), std::vector<pid_t>{4711});
  lanes.end(task);
  children.ended[4711] = {.exit_code = 7, .signal = {}, .peak_memory_kib = 4096};
  orphans->look_after();
  EXPECT_FALSE(orphans->contains(task));
  EXPECT_EQ(count(task.job, model::TaskState::failed), 1u);
  EXPECT_EQ(store->task(task.job, task.index)->exit_code, 7);
  EXPECT_EQ(children.buried, std::vector<pid_t>{4711}) << "when its end was stored";
}

TEST_F(OrphansTest, WhoNotesItsNumberAfterItsLaneHasDiedIsKnownByThat) {
  const model::Task task = one_left_running(job(), model::TaskPhase::taken);
  std::array<int, 2> lock{};
  ASSERT_EQ(::pipe(lock.data()), 0);
  const Fd held(lock[1]);
  lanes.on_look = [&] { return Fd(lock[0]); };   // its child, on its way to execve, has it
  settle(task);
  ASSERT_TRUE(orphans->contains(task));
  record.bays[0].pid = 4711;
  record.bays[0].phase.store(model::TaskPhase::reached);
  lanes.begin(task);
  orphans->look_after();
  EXPECT_EQ(orphans->commands(), std::vector<pid_t>{4711});
}

TEST_F(OrphansTest, OneThatMayHaveBeenTakenDownWithEverythingIsNotSaidToHaveFailedAtOnce) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  record.bays[0].pid = 4711;
  children.ended[4711] = {.exit_code = {}, .signal = SIGKILL, .peak_memory_kib = {}};
  settle(task);
  ASSERT_TRUE(orphans->contains(task)) << "our own TERM may be a step behind";
  EXPECT_EQ(orphans->next_look(), clock.now + plan::signals_take);
  clock.now += plan::signals_take;
  orphans->look_after();
  EXPECT_EQ(count(task.job, model::TaskState::failed), 1u);
}

TEST_F(OrphansTest, WhatItsLaneHasNotedOfItsEndCountsWhereNothingElseIsKnown) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  model::LaneBay& bay = record.bays[0];
  bay.exit_code = 0;
  bay.signal = -1;
  bay.ended_ms = 1'000;
  bay.seal = model::end_seal(bay);
  settle(task);
  EXPECT_EQ(count(task.job, model::TaskState::done), 1u);
}

TEST_F(OrphansTest, WhatACommandHasLeftIsEndedFromTermOnUnlessItLingers) {
  for (const bool lingers : {false, true}) {
    port::Submission submission = job();
    submission.spec.linger = lingers;
    lanes.signals.clear();
    const model::Task task = one_left_running(submission, model::TaskPhase::reached);
    record.bays[0].pid = 4711;
    lanes.begin(task);
    settle(task);
    children.ended[4711] = {.exit_code = 0, .signal = {}, .peak_memory_kib = {}};
    orphans->look_after();
    clock.now += Seconds{1};
    orphans->look_after();
    EXPECT_EQ(std::ranges::count(lanes.signals, SIGTERM), lingers ? 0 : 1);
    EXPECT_THAT(lanes.signals, testing::Not(testing::Contains(SIGINT)));
    lanes.end(task);
    orphans->look_after();
    EXPECT_EQ(count(task.job, model::TaskState::done), 1u);
  }
}

TEST_F(OrphansTest, WhatLivesIsLookedForByTheNumberOfItsLane) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  const std::string mark = app::task_mark(store->secret(), task);
  record.number = 0xabc;
  record.number_seal = model::number_seal(record);
  lanes.begin(task);
  settle(task);
  EXPECT_EQ(lanes.looked_for.mark, mark + "0000000000000abc@");
  EXPECT_EQ(lanes.looked_for.known_by, port::RunTrace::By::number);
  ++record.pid;                                  // a lane of an earlier build has had this record since
  by_another_runner(task);
  EXPECT_EQ(lanes.looked_for.mark, mark);
  EXPECT_EQ(lanes.looked_for.known_by, port::RunTrace::By::directory);
}

TEST_F(OrphansTest, WhatACopyOfARecordDoesNotNameIsLookedForAndThenLost) {
  const model::Task task = one_left_running(job(), model::TaskPhase::taken);
  record.number = 0xabc;
  record.pid_namespace = 77;
  record.namespace_seal = model::namespace_seal(record);
  record.number_seal = model::number_seal(record);
  record.bays[0].phase.store(model::TaskPhase::none);
  settle(task, true);
  EXPECT_EQ(lanes.looked_for.mark, app::task_mark(store->secret(), task)) << "whatever lane it is in there";
  EXPECT_EQ(lanes.looked_for.known_by, port::RunTrace::By::nothing);
  EXPECT_EQ(lanes.looked_for.pid_namespace, 77u);
  EXPECT_EQ(count(task.job, model::TaskState::lost), 1u);
}

// A container has a boot id of its own. Who has the lane's lock lives under this boot, whatever the ids say.
TEST_F(OrphansTest, WhereTheBootIsNotToldTheLockTellsIt) {
  for (const auto phase : {model::TaskPhase::taken, model::TaskPhase::reached}) {
    const model::Task task = one_left_running(job(), phase);
    ports.boot = {"a container's", false};
    orphans.emplace(ports).of_queue(store->secret(), 0);
    settle(task);
    EXPECT_TRUE(orphans->none_is_seen());
    EXPECT_TRUE(runs_in_store()) << "neither queued again nor lost";
    const Fd held(::eventfd(0, EFD_CLOEXEC));
    lanes.on_look = [&] { return Fd(::fcntl(held.get(), F_DUPFD_CLOEXEC, 3)); };
    orphans.emplace(ports).of_queue(store->secret(), 0);
    settle(task);
    EXPECT_TRUE(orphans->contains(task));
    EXPECT_FALSE(orphans->none_is_seen());
    ::eventfd_write(held.get(), 1);
    orphans->look_after();
    EXPECT_FALSE(orphans->contains(task));
    EXPECT_EQ(count(task.job, phase == model::TaskPhase::taken ? model::TaskState::queued : model::TaskState::lost), 1u);
    alter(task.job, port::Verb::cancel);
    lanes.on_look = [] { return Fd(); };
  }
}

TEST_F(OrphansTest, OfManyThatMayHaveBegunTheSameIsSaidOnce) {
  const model::JobId id = submit(job(4000));
  store->booted(model::Boots(boot), at(0));
  for (int i = 0; i < 100; ++i) {
    take(id, 1, WallTime(at(0) + Millis(i)));
    finish(id, static_cast<model::TaskIndex>(i), model::TaskState::done, WallTime(at(0) + Millis(i)));
  }
  ports.boot = {"a container's", false};
  store->booted(model::Boots(ports.boot), at(1));
  const std::size_t untold = store->running().size();
  ASSERT_GT(untold, 1u);
  orphans.emplace(ports).of_queue(store->secret(), 0);
  for (const model::Task& task : store->running()) orphans->take_up(task, {});
  orphans->look_after();
  EXPECT_EQ(store->running().size(), untold);
  EXPECT_EQ(said.size(), 1u);
}

// Of two tasks of a lane the lock is one.
TEST_F(OrphansTest, OneThatHasEndedDoesNotWaitForItsNeighbourNorIsItCalledEndedAtItsLimit) {
  const Fd lock(::eventfd(0, EFD_CLOEXEC));
  lanes.on_look = [&] { return Fd(::fcntl(lock.get(), F_DUPFD_CLOEXEC, 3)); };
  const std::vector<model::Task> tasks = left_running(limited(2), model::TaskPhase::reached);
  ASSERT_EQ(tasks.size(), 2u);
  for (const model::Task& task : tasks) lanes.begin(task);
  for (const model::Task& task : tasks) settle(task);
  lanes.end(tasks[0]);
  orphans->look_after();
  EXPECT_FALSE(orphans->contains(tasks[0]));
  EXPECT_TRUE(orphans->contains(tasks[1]));
  EXPECT_EQ(count(tasks[0].job, model::TaskState::lost), 1u);
  EXPECT_THAT(reason(tasks[0]), testing::Not(testing::HasSubstr("time limit")));
  lanes.end(tasks[1]);
  orphans->look_after();
  EXPECT_TRUE(orphans->contains(tasks[1])) << "something has the lock, and it may be of this one";
  ::eventfd_write(lock.get(), 1);
  orphans->look_after();
  EXPECT_TRUE(orphans->empty());
}

// What has cleared its environment has the lock, and shows no task.
TEST_F(OrphansTest, WhatShowsNoTaskIsOfTheLastOneOfItsLane) {
  const Fd lock(::eventfd(0, EFD_CLOEXEC));
  lanes.on_look = [&] { return Fd(::fcntl(lock.get(), F_DUPFD_CLOEXEC, 3)); };
  const std::vector<model::Task> tasks = left_running(job(2), model::TaskPhase::reached);
  lanes.keepers.push_back(Fd(::eventfd(0, EFD_CLOEXEC)));
  for (const model::Task& task : tasks) lanes.begin(task);
  alter(tasks[0].job, port::Verb::cancel);
  for (const model::Task& task : tasks) orphans->take_up(task, {left()});
  orphans->look_after();
  EXPECT_EQ(std::ranges::count(lanes.signals, SIGINT), 2);
  EXPECT_EQ(lanes.signals_to_keepers, 0u) << "of which of the two nobody knows";
  lanes.end(tasks[0]);
  orphans->look_after();
  EXPECT_FALSE(orphans->contains(tasks[0])) << "the other one explains the lock, and what has it";
  lanes.end(tasks[1]);
  orphans->look_after();
  EXPECT_TRUE(orphans->contains(tasks[1]));
  clock.now += store->spec(tasks[1].job).patience;
  orphans->look_after();
  EXPECT_GT(lanes.signals_to_keepers, 0u);
}

// A lane of another moment, or of another file of the queue, may have had other tasks.
TEST_F(OrphansTest, WhatShowsNoTaskIsLeftAloneWhereTheRecordIsNotOfNow) {
  for (const bool of_another_moment : {true, false}) {
    const model::Task task = one_left_running(job(), model::TaskPhase::reached);
    lanes.begin(task);
    orphans.emplace(ports).of_queue(store->secret(), of_another_moment ? 0 : 7);
    orphans->take_up(task, {left(), false, of_another_moment});
    alter(task.job, port::Verb::cancel);
    orphans->look_after();
    EXPECT_THAT(lanes.signals, testing::Contains(SIGINT));
    EXPECT_FALSE(lanes.looked_for.lane) << of_another_moment;
    lanes.signals.clear();
    lanes.end(task);
    orphans->look_after();
  }
}

// A lane of an earlier build leaves in its file how another task's end went that had this bay.
TEST_F(OrphansTest, HowTheEndOfAnotherRunWentSaysNothing) {
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  model::EndingOfOrphan& ending = record.endings[0];
  ending.job = task.job, ending.task = task.index, ending.runs = task.runs + 1;
  ending.steps.store(3);
  lanes.begin(task);
  alter(task.job, port::Verb::cancel);
  settle(task);
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT}));
}

TEST_F(OrphansTest, WhatARecordThatWasPutBackDoesNotNameIsLost) {
  const model::Task task = one_left_running(job(), model::TaskPhase::taken);
  orphans->take_up(task, {.record = left(), .of_another_moment = true});
  orphans->look_after();
  EXPECT_EQ(count(task.job, model::TaskState::lost), 1u);
}

// In another pid namespace, without its lane's lock.
TEST_F(OrphansTest, WhatIsNotSeenFromHereIsLeftAloneUntilSomebodyGivesItUp) {
  port::Submission submission = job();
  submission.terms.time = Seconds{50};           // it began 99 s ago
  const model::Task task = one_left_running(submission, model::TaskPhase::reached);
  lanes.begin(task);
  lanes.unseen = true;
  EXPECT_TRUE(orphans->none_is_seen());
  settle(task);
  for (int i = 0; i < 2; ++i) orphans->look_after();
  EXPECT_TRUE(runs_in_store()) << "it is not lost";
  EXPECT_THAT(lanes.signals, testing::IsEmpty());
  EXPECT_TRUE(orphans->none_is_seen()) << "the runner may leave for one that sees it";
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("not seen from here")));
  alter(task.job, port::Verb::cancel);
  orphans->look_after();
  EXPECT_TRUE(runs_in_store()) << "it may live, and the first runner that sees it ends it";
  ASSERT_EQ(orphans->sight().unseen.size(), 1u);
  EXPECT_EQ(orphans->sight().unseen[0].job, task.job);
  EXPECT_THAT(orphans->sight().unseen[0].why, testing::HasSubstr("elsewhere"));
  EXPECT_TRUE(orphans->sight().seen.empty());
  EXPECT_FALSE(orphans->sight().unseen[0].locked);
  alter(task.job, port::Verb::give_up);
  orphans->look_after();
  EXPECT_EQ(count(task.job, model::TaskState::cancelled), 1u);
  EXPECT_THAT(lanes.signals, testing::IsEmpty());
  EXPECT_TRUE(orphans->sight().unseen.empty());
}

TEST_F(OrphansTest, WhatIsNotSeenFromHereAndHasTheLockIsNotOverByBeingGivenUp) {
  lanes.on_look = [] { return Fd(::eventfd(0, EFD_CLOEXEC)); };
  lanes.unseen = true;
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  alter(task.job, port::Verb::give_up);
  settle(task);
  EXPECT_TRUE(runs_in_store());
  EXPECT_TRUE(orphans->sight().unseen.at(0).locked);
  lanes.unseen = false;
  lanes.begin(task);
  orphans->look_after();
  EXPECT_FALSE(orphans->none_is_seen());
  EXPECT_TRUE(orphans->sight().unseen.empty());
  EXPECT_EQ(orphans->sight().seen, (std::set<port::SeenFrom>{{0, model::to_text(boot)}})) << "its namespace is not known";
  EXPECT_EQ(lanes.signals, (std::vector<int>{SIGINT, SIGCONT})) << "by one that sees it";
}

TEST_F(OrphansTest, WhatIsHiddenAndHasTheLockIsWaitedForAndToldOnce) {
  lanes.on_look = [] { return Fd(::eventfd(0, EFD_CLOEXEC)); };
  lanes.hidden = true;
  const model::Task task = one_left_running(job(), model::TaskPhase::reached);
  settle(task);
  alter(task.job, port::Verb::cancel);
  for (int i = 0; i < 5; ++i) {
    orphans->look_after();
    clock.now += Seconds{20};
  }
  EXPECT_THAT(said, testing::ElementsAre(testing::HasSubstr("gets no signal, and is waited for: it has the lock (try: sudo)")));
  EXPECT_FALSE(orphans->any_is_unseen()) << "no other runner sees more";
  ASSERT_EQ(orphans->sight().unseen.size(), 1u);
  EXPECT_EQ(orphans->sight().unseen[0].by, port::UnseenBy::hidden);
  EXPECT_TRUE(orphans->sight().unseen[0].locked);
  EXPECT_TRUE(runs_in_store());
  alter(task.job, port::Verb::give_up);
  orphans->look_after();
  EXPECT_TRUE(runs_in_store()) << "the lock tells that it lives";
}

TEST_F(OrphansTest, OneThatCannotBeLookedAtIsNoReasonToLeaveTheOthersAlone) {
  const std::vector<model::Task> tasks = left_running(job(2), model::TaskPhase::reached);
  lanes.on_look = []() -> Fd { throw Error(ErrorCode::unavailable, "this is no FIFO"); };
  lanes.begin(tasks.at(0));
  EXPECT_NO_THROW(settle(tasks[0]));
  lanes.on_look = [] { return Fd(); };
  orphans->take_up(tasks.at(1), {left()});
  lanes.on_look = [first = true]() mutable -> Fd {   // the last one is looked at first
    if (std::exchange(first, false)) return Fd();
    throw Error(ErrorCode::unavailable, "this is no FIFO");
  };
  orphans->look_after();
  EXPECT_FALSE(orphans->contains(tasks[1])) << "it was lost";
  EXPECT_TRUE(orphans->contains(tasks[0]));
  EXPECT_TRUE(orphans->have_lane(static_cast<unsigned>(tasks[0].lane))) << "nobody else gets its files";
  EXPECT_EQ(std::ranges::count_if(said, [](const auto& text) { return text.find("no FIFO") != text.npos; }), 1);
  lanes.on_look = [] { return Fd(); };
  orphans->look_after();
  lanes.end(tasks[0]);
  orphans->look_after();
  EXPECT_FALSE(runs_in_store());
}

}  // namespace
}  // namespace thole::host
