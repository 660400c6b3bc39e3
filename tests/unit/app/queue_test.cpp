// Naming jobs, listing them with their reasons, altering them: over the real store, in a directory of the test's own.
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "app/abandoned_code.hpp"
#include "app/going_on.hpp"
#include "app/job_actions.hpp"
#include "app/job_list.hpp"
#include "app/job_names.hpp"
#include "app/put_off.hpp"
#include "app/submit.hpp"
#include "app/why_job.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "support/said.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

using model::TaskState;
using test::said;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct StillClock : port::Clock {
  WallTime wall() const override { return at(100); }
  SteadyTime steady() const override { return now; }
  SteadyTime now{};
};

struct SilentDoor : port::QueueDoor {
  std::string surroundings(const std::vector<std::string>&) override { return ""; }
  void stir() override {
    ++stirred;
    if (broken) throw Error(ErrorCode::unavailable, "cannot start the runner");
  }
  void nudge(std::uint64_t lane) override {
    nudged.push_back(lane);
    if (broken) stir();
  }
  std::optional<pid_t> stopped_runner() override { return std::nullopt; }
  std::optional<pid_t> stopped_lane(std::uint64_t) override { return std::nullopt; }
  std::vector<std::string> left_of(const model::Task&, const std::string&) override { return {}; }
  std::optional<port::UnseenRun> unseen(const model::Task& task, const std::string&) override {
    const auto found = std::ranges::find(not_seen, task.index, &port::UnseenRun::task);
    return found == not_seen.end() ? std::nullopt : std::optional(*found);
  }
  std::optional<port::NotedEnd> noted_end(const model::Task&) override { return noted; }
  std::string last_said() const override { return log; }
  std::string full_disk() const override { return full; }
  bool relieve(const Files& files, bool awaited) override {
    UnseenCounts unseen;
    for (const port::UnseenRun& run : not_seen) ++unseen[run.job];
    asked_for_files.push_back(files(unseen));
    relief_awaited = awaited;
    return runner_has_told;
  }
  std::optional<model::JobId> job_of_lane(pid_t) override { return std::nullopt; }
  Fd runner_end() override { return Fd(::dup(end)); }
  std::string log_path(const std::string& name) const override { return name; }
  void forget_logs(model::JobId) override {}
  void settle_code(const Owner& owner) override {
    for (const std::string& copy : copies) settled.push_back(owner(copy));
  }
  bool broken = false;                           // nobody can be told
  int end = -1;                                  // of a runner that is said to live
  unsigned stirred = 0;
  std::optional<port::NotedEnd> noted;
  std::string log, full;
  std::vector<port::UnseenRun> not_seen;
  std::vector<std::vector<std::string>> asked_for_files;
  bool relief_awaited = false, runner_has_told = true;
  std::vector<std::string> copies;
  std::vector<std::optional<model::JobId>> settled;
  std::vector<std::uint64_t> nudged;
};

class NamedJobs : public QueueTest {
 protected:
  std::vector<model::JobId> jobs(std::vector<std::string> words) {
    std::vector<model::JobId> ids;
    for (const model::Job& job : app::jobs_of(*store, app::selections(*store, words))) ids.push_back(job.id);
    return ids;
  }
};

TEST_F(NamedJobs, AreNumbersRangesPlacesNamesAndTags) {
  for (const char* name : {"alpha", "beta", "gamma"}) {
    port::Submission one = job(10, name);
    one.spec.tags = {"sweep"};
    submit(one);
  }
  EXPECT_THAT(jobs({"2"}), ElementsAre(2));
  EXPECT_THAT(jobs({"3,1"}), ElementsAre(1, 3));
  EXPECT_THAT(jobs({"2-99"}), ElementsAre(2, 3));
  EXPECT_THAT(jobs({"@"}), ElementsAre(3));
  EXPECT_THAT(jobs({"beta", "last"}), ElementsAre(2, 3));
  EXPECT_THAT(jobs({"sweep"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(jobs({"all"}), ElementsAre(1, 2, 3));
  const auto tasks = app::selections(*store, {"beta.3-99"});
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].tasks, (std::pair<model::TaskIndex, model::TaskIndex>{3, 9}));
}

TEST_F(NamedJobs, OfSeveralJobsWithOneNameThoseThatHaveNotEndedAreMeant) {
  const auto first = submit(job(1, "train"));
  run_all(first);
  EXPECT_THAT(jobs({"train"}), ElementsAre(1));
  submit(job(1, "train"));
  EXPECT_THAT(jobs({"train"}), ElementsAre(2));
  run_all(2);
  EXPECT_THAT(jobs({"train"}), ElementsAre(2));
}

TEST_F(NamedJobs, ThatNameNothingAreRefusedWithWhatIsNearest) {
  EXPECT_THAT(said([&] { jobs({"1"}); }), HasSubstr("nothing has been submitted"));
  submit(job(10, "training"));
  EXPECT_THAT(said([&] { jobs({"7"}); }), HasSubstr("usage: no job 7\n  the newest is 1"));
  EXPECT_THAT(said([&] { jobs({"7-9"}); }), HasSubstr("no job 7-9"));
  EXPECT_THAT(said([&] { jobs({"trainign"}); }), HasSubstr("did you mean training?"));
  EXPECT_THAT(said([&] { jobs({"1.10"}); }), HasSubstr("no task 1.10\n  job 1 has the tasks 0 to 9"));
  EXPECT_THAT(said([&] { app::dependencies(*store, {"1.3"}); }), HasSubstr("a job waits for whole jobs"));
}

TEST_F(QueueTest, ACopyOfCodeThatNobodyWasGivenIsItsJobsOrNobodys) {
  SilentDoor door;
  door.copies = {"/copies/a", "/copies/b"};
  port::Submission one = job();
  submit(one);
  one.spec.snapshot = "/copies/b";
  submit(one);
  app::settle_code(*store, door);
  EXPECT_THAT(door.settled, ElementsAre(std::nullopt, std::optional<model::JobId>(2)));
}

class List : public QueueTest {
 protected:
  app::JobList list(app::JobListWish wish = {}) { return app::list_jobs(*store, nullptr, wish, at(100), &door); }
  app::JobLine line(model::JobId id) {
    for (app::JobLine& one : list().lines)
      if (one.job.id == id) return one;
    throw std::runtime_error("not listed");
  }
  std::string waits(model::JobId id) {
    const app::JobLine one = line(id);
    return one.wait ? one.wait->kind + ": " + one.wait->text : "";
  }
  port::Submission of_gpus(unsigned gpus, int priority = 0) {
    port::Submission one = job();
    one.spec.request.gpus = gpus;
    one.terms.priority = priority;
    return one;
  }
  void say(const std::string& text) { door.log += fmt::format("{} {}\n", format_iso(at(90)), printable(text, 2000)); }

  SilentDoor door;
};

TEST_F(List, SaysOfEveryWaitWhatItIsFor) {
  submit(of_gpus(1));
  submit(of_gpus(1));
  port::Submission held = of_gpus(1), later = of_gpus(1), after = of_gpus(1);
  held.terms.held = true;
  submit(held);
  later.terms.begin = at(7300);
  submit(later);
  after.terms.after = {{1, model::After::ok}, {2, model::After::any}};
  submit(after);
  EXPECT_EQ(waits(1), "start: starts next");
  EXPECT_EQ(waits(2), "jobs: behind 1");
  EXPECT_EQ(waits(3), "held: held; thole resume 3");
  EXPECT_THAT(waits(4), HasSubstr("begin: not before "));
  EXPECT_EQ(waits(5), "dependency: after 1,2:any");
  run_all(1);
  EXPECT_EQ(waits(5), "dependency: after 2:any");
  store->drain(true);
  EXPECT_EQ(waits(2), "drain: the queue is drained; thole drain --off");
}

TEST_F(List, WhatItsRunnerHasPutOffDoesNotStartNext) {
  port::Submission other = of_gpus(1);
  other.spec.request.on = {"1"};
  submit(of_gpus(1));
  submit(other);
  say(app::lane_ended_text(1, "of another day"));
  say(app::put_off_text(1, at(95)));
  EXPECT_EQ(waits(1), "start: starts next") << "that was before now";
  say(app::lane_ended_text(1, "1 GPU asked for, 0 of 1 that would do can be used\n  GPU 0: lost"));
  say(app::put_off_text(1, at(130)));
  say("job 1: no log: and the like says nothing of that");
  const std::string why = "again: asked for again in 30s: 1 GPU asked for, 0 of 1 that would do can be used; GPU 0: lost";
  EXPECT_EQ(waits(1), why);
  const auto same = submit(of_gpus(1, 5));
  EXPECT_EQ(waits(same), why) << "it asks for the same";
  EXPECT_EQ(waits(1), fmt::format("jobs: behind {}", same));
  say(app::put_off_text(2, at(160)));
  run_all(same);
  run_all(1);
  EXPECT_EQ(waits(2), "again: asked for again in 1m") << "nobody said why";
  const auto say_it = [this](const std::string& text) { say(text); };
  app::ask_anew(door, at(161), say_it);
  EXPECT_EQ(waits(2), "again: asked for again in 1m") << "nothing is put off by then";
  app::ask_anew(door, at(100), say_it);
  EXPECT_EQ(waits(2), "start: starts next") << "by another runner";
}

TEST_F(List, NothingStartsNextWhileItsRunnerCanBeginNothing) {
  submit(of_gpus(1));
  say(app::runner_kept_text("cannot write: /claims/devices: No space left on device\n  make room"));
  const std::string why = "again: its runner can begin nothing yet: cannot write: /claims/devices: No space left on device; "
                          "make room";
  EXPECT_EQ(waits(1), why);
  say("job 1: something else");
  EXPECT_EQ(waits(1), why);
  say(std::string(app::runner_goes_on));
  EXPECT_EQ(waits(1), "start: starts next");
  say(app::runner_kept_text("cannot write: /claims/devices"));
  app::ask_anew(door, at(100), [this](const std::string& text) { say(text); });
  EXPECT_EQ(waits(1), "start: starts next") << "by another runner";
}

TEST_F(List, NothingStartsOnAFullDiskAndWhatEndedThereIsNotSaidToRun) {
  const auto id = submit(of_gpus(1));
  submit(of_gpus(0));
  take(id, 1, at(10));
  door.full = "/small";
  EXPECT_EQ(waits(2), "disk: disk full: /small");
  EXPECT_FALSE(line(id).all_over) << "it runs";
  door.noted = port::NotedEnd{at(100) - Millis{500}, 4, std::nullopt};
  EXPECT_FALSE(line(id).all_over) << "any end takes a moment";
  door.noted->at = at(12);
  EXPECT_EQ(line(id).all_over, at(12));
  EXPECT_EQ(line(id).unwritten.size(), 1u);
  const StillClock clock;
  const app::Queue queue{*store, door, clock};
  const auto told = app::why_jobs(queue, {{id, id, std::nullopt}}, {});
  EXPECT_THAT(told.at(0).sentences, Contains(AllOf(HasSubstr("it ended "), HasSubstr("(exit status 4), and counts as running"),
                                                   HasSubstr(": disk full: /small"))));
}

TEST_F(List, OnlyJobsThatGoBeforeAreNamedAndTheRestIsCounted) {
  for (int i = 0; i < 6; ++i) submit(of_gpus(1));
  submit(of_gpus(1, 5));
  submit(of_gpus(0));
  EXPECT_EQ(waits(7), "start: starts next");
  EXPECT_EQ(waits(1), "jobs: behind 7");
  EXPECT_EQ(waits(6), "jobs: behind 7,1,2 and 3 more");
  EXPECT_EQ(waits(8), "start: starts next") << "without a GPU it waits for nobody's";
}

TEST_F(List, CountsTasksAndNamesTheEndToBeExpected) {
  const auto id = submit(10);
  take(id, 2, at(0));
  finish(id, 0, TaskState::done, at(60));
  const app::JobLine one = line(id);
  EXPECT_EQ(one.state, "running");
  ASSERT_TRUE(one.expected_end);
  EXPECT_EQ(*one.expected_end, at(100 + 60 * 8 + 30)) << "eight wait, one is half done, one at a time, a minute each";
  EXPECT_EQ(list().tasks[TaskState::queued], 8u);
}

TEST_F(List, FoldsWhatIsTooMuchAndSaysHowMuchItWas) {
  for (int i = 0; i < 30; ++i) submit(job());
  run_all(1);
  run_all(2);
  app::JobListWish wish;
  wish.most_queued = 20;
  wish.most_ended = 1;
  const app::JobList folded = list(wish);
  EXPECT_EQ(folded.lines.size(), 21u);
  EXPECT_EQ(folded.untold_queued, 8u);
  EXPECT_EQ(folded.untold_ended, 1u);
  EXPECT_EQ(folded.lines.front().job.id, 2u) << "the newest of those that ended";
  EXPECT_EQ(folded.tasks.total(), 30u);
}

TEST_F(List, EndedJobsHaveTheWorstOfTheirTasksAsState) {
  const auto id = submit(2);
  take(id, 2);
  finish(id, 0, TaskState::done);
  finish(id, 1, TaskState::failed);
  EXPECT_EQ(line(id).state, "failed");
}

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
  app::GoingOn(queue(), {}).look();
  EXPECT_EQ(door.asked_for_files.size(), 1u) << "a lane only sees to it that there is one";
  app::GoingOn(queue(), {}, true).look();
  EXPECT_EQ(door.asked_for_files.size(), 2u);
  EXPECT_FALSE(door.relief_awaited) << "a look waits for nobody";
  app::GoingOn waiting(queue(), {}, true);
  waiting.look();
  EXPECT_GT(waiting.next_look() - clock.steady(), Seconds{1});
  door.runner_has_told = false;
  app::GoingOn in_doubt(queue(), {}, true);
  in_doubt.look();
  EXPECT_EQ(in_doubt.next_look() - clock.steady(), Seconds{1}) << "soon it may have told what it does not see";
  EXPECT_EQ(door.stirred, 0u);
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
