// Altering jobs and waiting for them: over the real store, in a directory of the test's own.
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "app/queue/going_on.hpp"
#include "app/queue/job_actions.hpp"
#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "support/said.hpp"
#include "unit/app/queue_doubles.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

using model::TaskState;
using test::said;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Actions : public QueueTest {
 protected:
  StillClock clock;
  SilentDoor door;
  app::Queue queue() { return {*store, door, clock}; }
  bool over(const std::vector<port::Selection>& which) {
    app::AwaitOptions at_once;
    at_once.timeout = Millis{0};
    return app::await(*store, clock, which, at_once).why == app::Awaited::Why::ended;
  }
};

TEST_F(Actions, CancelTellsTheLanesOfWhatRunsOnce) {
  const auto id = submit(10);
  take(id, 3);
  const auto altered = app::alter(queue(), {{id, id, std::nullopt}}, port::Verb::cancel).jobs;
  ASSERT_EQ(altered.size(), 1u);
  EXPECT_EQ(altered[0].running.size(), 3u);
  EXPECT_THAT(door.nudged, ElementsAre(7));
  EXPECT_EQ(door.stirred, 1u);
}

TEST_F(Actions, WhoAsksSomethingOfWhatTheRunnerDoesNotSeeIsToldSo) {
  const auto id = submit(2);
  take(id, 2);
  door.not_seen.push_back({.job = id, .task = 1, .why = "it is in a container"});
  const app::Alteration cancelled = app::alter(queue(), {{id, id, std::nullopt}}, port::Verb::cancel);
  EXPECT_THAT(cancelled.caution, AllOf(HasSubstr("1.1: "), HasSubstr("it is in a container"), HasSubstr("cancel --force 1.1")));
}

TEST_F(Actions, OnlyWhatIsNotSeenIsGivenUp) {
  const auto id = submit(2);
  take(id, 2);
  const auto is_given_up = [&](model::TaskIndex task) { return store->task(id, task)->given_up; };
  const auto give_up = [&](model::TaskIndex task) {
    return said([&] { app::give_up(queue(), {{id, id, std::pair(task, task)}}); });
  };
  door.not_seen = {{.job = id, .task = 1, .locked = true, .why = "it is in a container"}};
  EXPECT_THAT(give_up(0), HasSubstr("is seen from here"));
  EXPECT_THAT(give_up(1), HasSubstr("its lane's lock"));
  EXPECT_FALSE(is_given_up(0) || is_given_up(1) || store->task(id, 0)->cancel_asked);
  door.not_seen[0].locked = false;
  alter(id, port::Verb::cancel);                 // before
  EXPECT_EQ(app::give_up(queue(), {{id, id, std::pair(model::TaskIndex{1}, model::TaskIndex{1})}}).jobs.at(0).changed, 1u);
  EXPECT_TRUE(is_given_up(1) && !is_given_up(0));
}

TEST_F(Actions, ARunnerIsRelievedByWhoSeesMoreAndToldWhereWhatWaitsIsToStart) {
  const Pipe living = make_pipe();
  door.end = living.read.get();
  port::Submission one = job(1);
  one.spec.directory = "/somewhere";
  submit(one);
  app::keep_going(queue());
  ASSERT_EQ(door.asked_for_files.size(), 1u);
  EXPECT_THAT(door.asked_for_files[0], ElementsAre("/somewhere"));
  EXPECT_TRUE(door.relief_awaited);
  EXPECT_EQ(door.stirred, 1u) << "somebody may have stored something and failed to tell";
  app::GoingOn(queue(), {}).look();
  EXPECT_EQ(door.asked_for_files.size(), 1u) << "a lane only sees to it that there is one";
  EXPECT_EQ(door.stirred, 1u);
  app::GoingOn(queue(), {}, true).look();
  EXPECT_EQ(door.stirred, 2u);
  EXPECT_EQ(door.asked_for_files.size(), 2u);
  EXPECT_FALSE(door.relief_awaited) << "a look waits for nobody";
  app::GoingOn waiting(queue(), {}, true);
  waiting.look();
  EXPECT_GT(waiting.next_look() - clock.steady(), Seconds{1});
  door.runner_has_told = false;
  app::GoingOn in_doubt(queue(), {}, true);
  in_doubt.look();
  EXPECT_EQ(in_doubt.next_look() - clock.steady(), Seconds{1}) << "soon it may have told what it does not see";
}

// Where the machine goes down our own end comes a step behind the runner's.
TEST_F(Actions, WhoSeesARunnerEndWaitsForAMomentBeforeAnotherIsStarted) {
  submit(1);
  const Pipe living = make_pipe();
  door.end = living.read.get();
  app::GoingOn going(queue(), {});
  going.look();
  door.end = -1;
  ASSERT_TRUE(write_all(living.write.get(), "x"));
  going.look();
  EXPECT_TRUE(going.is_in_doubt());
  EXPECT_EQ(door.stirred, 0u);
  EXPECT_EQ(going.fd(), -1) << "there is nothing to watch";
  clock.now = going.next_look();
  going.look();
  EXPECT_FALSE(going.is_in_doubt());
  EXPECT_EQ(door.stirred, 1u);
}

TEST_F(Actions, WhatIsStoredWhenNobodyCanBeToldIsNoFailure) {
  door.broken = true;
  const auto id = submit(10), other = submit(1);
  take(id, 3);
  const app::Alteration cancelled = app::alter(queue(), {{id, id, std::nullopt}}, port::Verb::cancel);
  ASSERT_EQ(cancelled.jobs.size(), 1u);
  EXPECT_EQ(cancelled.jobs[0].changed, 10u);
  port::TermsChange change;
  change.priority = 5;
  const std::string edited = app::edit(queue(), app::jobs_of(*store, {{other, other, std::nullopt}}), change);
  EXPECT_EQ(look(other).terms.priority, 5);
  const std::string drained = app::drain(queue(), true);
  EXPECT_TRUE(store->draining());
  for (const std::string& caution : {cancelled.caution, edited, drained, app::drain(queue(), false)})
    EXPECT_THAT(caution, AllOf(HasSubstr("it is stored"), HasSubstr("cannot start the runner"), HasSubstr("thole jobs")));
  door.broken = false;
  EXPECT_EQ(app::drain(queue(), true), "");
}

TEST_F(Actions, EditOfWhatHasStartedIsRefusedAndChangesNothing) {
  const auto first = submit(1), second = submit(1);
  take(second);
  port::TermsChange change;
  change.priority = 5;
  const auto both = app::jobs_of(*store, {{first, second, std::nullopt}});
  EXPECT_THAT(said([&] { app::edit(queue(), both, change); }), HasSubstr("job 2 has started"));
  EXPECT_EQ(look(first).terms.priority, 0);
  finish(second, 0, TaskState::done);
  EXPECT_THAT(said([&] {
                app::edit(queue(), app::jobs_of(*store, {{second, second, std::nullopt}}), change);
              }),
              HasSubstr("has ended"));
}

// `retry` refuses it as long as it waits for what has ended otherwise, and names `edit` as the way out.
TEST_F(Actions, OfASkippedJobOnlyWhatItWaitsForIsEdited) {
  const auto first = submit(1);
  port::Submission next = job(1);
  next.terms.after = {{first, model::After::ok}};
  const auto skipped = submit(next);
  run_all(first, TaskState::failed);
  ASSERT_EQ(look(skipped).counts[TaskState::skipped], 1u);
  port::TermsChange change;
  change.priority = 5;
  const auto edit = [&] { app::edit(queue(), app::jobs_of(*store, {{skipped, skipped, std::nullopt}}), change); };
  EXPECT_THAT(said(edit), HasSubstr("job 2 has ended"));
  change.after.emplace();
  edit();
  EXPECT_EQ(look(skipped).terms.priority, 5);
  EXPECT_TRUE(look(skipped).terms.after.empty());
  EXPECT_TRUE(look(skipped).ended) << "it is queued again by retry alone";
  EXPECT_EQ(app::alter(queue(), {{skipped, skipped, std::nullopt}}, port::Verb::retry).jobs.at(0).changed, 1u);
  EXPECT_FALSE(look(skipped).ended);
}

// A reader that reads through another one.
class Through : public port::JobReader {
 public:
  explicit Through(port::JobReader& store) : store_(store) {}
  std::unique_ptr<port::OneMoment> one_moment() override { return store_.one_moment(); }
  std::vector<model::Job> jobs(const port::JobQuery& query) override { return store_.jobs(query); }
  model::JobSpec spec(model::JobId job) override { return store_.spec(job); }
  std::vector<model::Task> tasks(model::JobId job, model::TaskIndex from, std::uint64_t limit,
                                 const std::set<TaskState>& states) override { return store_.tasks(job, from, limit, states); }
  std::optional<model::Task> task(model::JobId job, model::TaskIndex index) override { return store_.task(job, index); }
  std::vector<std::string> cells(model::JobId job, std::uint64_t item) override { return store_.cells(job, item); }
  bool draining() override { return store_.draining(); }
  std::unique_ptr<port::JobWatch> watch(port::Changes what) override { return store_.watch(what); }

 private:
  port::JobReader& store_;
};

// ... beside a lane: whenever jobs have been read, something has happened.
class BesideALane : public Through {
 public:
  BesideALane(port::JobReader& store, std::function<void()> happens) : Through(store), happens_(std::move(happens)) {}
  std::vector<model::Job> jobs(const port::JobQuery& query) override {
    std::vector<model::Job> found = Through::jobs(query);
    happens_();
    return found;
  }

 private:
  std::function<void()> happens_;
};

TEST_F(Actions, AListIsOfOneMoment) {
  SqliteJobStore own({.directory = directory});
  const auto ends = submit(1), pauses = submit(1);
  take(ends);
  take(pauses);
  BesideALane reader(own, [&] {
    finish(ends, 0, TaskState::done);
    finish(pauses, 0, TaskState::failed, at(2), at(500));   // queued again
  });
  const app::JobList list = app::list_jobs(reader, nullptr, {}, at(3));
  std::vector<std::string> told;
  for (const app::JobLine& line : list.lines) told.push_back(fmt::format("{} {}", line.job.id, line.state));
  EXPECT_THAT(told, ElementsAre("1 running", "2 running"));
  EXPECT_EQ(look(ends).counts[TaskState::done], 1u) << "it has happened meanwhile";
}

// A queue in which one more job ends, in order, each time somebody has looked.
class EndingOneByOne : public Through {
 public:
  EndingOneByOne(port::JobStore& store, std::function<void(model::JobId)> end) : Through(store), end_(std::move(end)) {}
  unsigned looks = 0;                            // for jobs that have not ended
  std::uint64_t read = 0;                        // jobs in all

  std::vector<model::Job> jobs(const port::JobQuery& query) override {
    looks += query.unended_only;
    std::vector<model::Job> found = Through::jobs(query);
    read += found.size();
    return found;
  }
  std::unique_ptr<port::JobWatch> watch(port::Changes) override { return std::make_unique<Always>(*this); }

 private:
  struct Always : port::JobWatch {
    explicit Always(EndingOneByOne& ending) : queue(ending), ready(::eventfd(1, EFD_CLOEXEC)) {}
    int fd() const override { return ready.get(); }
    void drain() override { queue.end_(++queue.ended_); }
    EndingOneByOne& queue;
    Fd ready;
  };
  std::function<void(model::JobId)> end_;
  model::JobId ended_ = 0;
};

TEST_F(Actions, AWaitForVeryManyJobsAsksForAFewOfThemAsTheyEnd) {
  constexpr unsigned many = 100;
  store->submit(std::vector<port::Submission>(many, job()), at(0));
  EndingOneByOne ending(*store, [this](model::JobId id) { run_all(id); });
  const app::Awaited awaited = app::await(ending, clock, {}, {});
  EXPECT_EQ(awaited.jobs.size(), many);
  EXPECT_LE(ending.looks, 4u);
  EXPECT_LE(ending.read, 4u * many) << "all at the beginning and at the end, and one after each end";
}

TEST_F(Actions, AWaitSeesWhatHasEndedBefore) {
  using Tasks = std::pair<model::TaskIndex, model::TaskIndex>;
  const auto id = submit(3);
  EXPECT_FALSE(over({{id, id, std::nullopt}}));
  EXPECT_FALSE(over({}));
  take(id, 3);
  finish(id, 1, TaskState::done);
  EXPECT_TRUE(over({{id, id, Tasks{1, 1}}}));
  EXPECT_FALSE(over({{id, id, Tasks{0, 1}}}));
  finish(id, 0, TaskState::done);
  finish(id, 2, TaskState::failed);
  EXPECT_TRUE(over({{id, id, std::nullopt}}));
  EXPECT_TRUE(over({})) << "nothing is left to wait for";
}

}  // namespace
}  // namespace thole::host
