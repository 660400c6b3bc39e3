// Naming jobs and listing them with their reasons: over the real store, in a directory of the test's own.
#include <gmock/gmock.h>

#include "app/queue/abandoned_code.hpp"
#include "app/queue/job_actions.hpp"
#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/put_off.hpp"
#include "app/queue/why_job.hpp"
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
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NamedJobs : public QueueTest {
 protected:
  std::vector<model::JobId> jobs(std::vector<std::string> words) {
    std::vector<model::JobId> ids;
    for (const model::Job& job : app::jobs_of(*store, app::selections(*store, words))) ids.push_back(job.id);
    return ids;
  }
};

TEST_F(NamedJobs, AreNumbersRangesLastOnesNamesAndTags) {
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

TEST_F(List, WhatALaneCannotStoreIsKnownFromItsLastTryForAsLongAsThereMayBeAnother) {
  say(app::unstored_text(1, "no room"));
  say(app::unstored_text(2, "File too large\n  ulimit -f"));
  say("job 2: something else");
  EXPECT_EQ(app::unstored_in(door.log, at(120)), "job 2: cannot be stored now, and is tried again: File too large; ulimit -f");
  EXPECT_EQ(app::unstored_in(door.log, at(151)), "");
  EXPECT_EQ(app::unstored_in("", at(90)), "");
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

}  // namespace
}  // namespace thole::host
