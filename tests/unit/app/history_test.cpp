// What `simulate --history` makes of a queue: over the real store, in a directory of the test's own.
#include <gmock/gmock.h>

#include "app/simulate/simulate.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

using model::TaskState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class History : public QueueTest {
 protected:
  // A job of one task that runs from `start` to `end`.
  void ran(unsigned gpus, WallTime submitted, WallTime start, WallTime end, std::optional<Seconds> time = std::nullopt,
           TaskState state = TaskState::done, std::optional<WallTime> begin = std::nullopt) {
    port::Submission one = job();
    one.spec.request.gpus = gpus;
    one.spec.request.time = time;
    one.terms.begin = begin;
    const model::JobId id = submit(one, submitted);
    take(id, 1, start);
    finish(id, 0, state, end);
  }

  app::Recorded read(std::optional<double> declared = std::nullopt, unsigned max_width = 8) {
    return app::read_history(*store, {"", max_width, declared});
  }
  template <class Member>
  std::vector<Member> each(Member plan::PastJob::*member, const app::Recorded& recorded) {
    std::vector<Member> values;
    for (const plan::PastJob& past : recorded.jobs) values.push_back(past.*member);
    return values;
  }
};

TEST_F(History, OfNothingIsNothing) { EXPECT_THAT(read().jobs, IsEmpty()); }

TEST_F(History, ArrivalsCountFromTheFirstAndTimesAreHowLongTasksRan) {
  ran(2, at(100), at(110), at(170));
  ran(4, at(130), at(170), at(175), std::nullopt, TaskState::failed);
  const app::Recorded recorded = read();
  EXPECT_THAT(each(&plan::PastJob::arrival, recorded), ElementsAre(Seconds{0}, Seconds{30}));
  EXPECT_THAT(each(&plan::PastJob::duration, recorded), ElementsAre(Seconds{60}, Seconds{5}));
  EXPECT_THAT(each(&plan::PastJob::gpus, recorded), ElementsAre(2u, 4u));
}

TEST_F(History, EachTaskOfASweepIsAJob) {
  const model::JobId id = submit(job(3));
  run_all(id);
  EXPECT_EQ(read().jobs.size(), 3u);
}

TEST_F(History, WhatNeverRanOrHadNoGpuIsNoRecord) {
  submit();                                      // queued
  const model::JobId lost = submit();
  take(lost, 1, at(1));
  finish(lost, 0, TaskState::lost);
  ran(0, at(0), at(1), at(2));
  ran(1, at(10), at(20), at(15));                // the clock was set back
  EXPECT_THAT(read().jobs, IsEmpty());
}

TEST_F(History, AJobComesWhenItMayBegin) {
  ran(1, at(0), at(5), at(6));
  ran(1, at(0), at(60), at(70), std::nullopt, TaskState::done, at(50));
  EXPECT_THAT(each(&plan::PastJob::arrival, read()), ElementsAre(Seconds{0}, Seconds{50}));
}

TEST_F(History, ADeclaredTimeIsTheLimitUnlessAFactorIsWished) {
  ran(1, at(0), at(0), at(100), Seconds{3600});
  ran(1, at(0), at(0), at(100));
  ran(1, at(0), at(0), at(100), Seconds{90});    // it needed its patience
  EXPECT_THAT(each(&plan::PastJob::declared, read()), ElementsAre(Seconds{3600}, std::nullopt, Seconds{100}));
  EXPECT_THAT(each(&plan::PastJob::declared, read(2.0)), ElementsAre(Seconds{200}, Seconds{200}, Seconds{200}));
  EXPECT_THAT(each(&plan::PastJob::declared, read(0.0)), ElementsAre(std::nullopt, std::nullopt, std::nullopt));
}

TEST_F(History, WiderThanAskedIsCountedAndLeftOut) {
  ran(4, at(0), at(1), at(2));
  ran(2, at(0), at(1), at(2));
  const app::Recorded recorded = read(std::nullopt, 2);
  EXPECT_EQ(recorded.jobs.size(), 1u);
  EXPECT_EQ(recorded.too_wide, 1u);
}

}  // namespace
}  // namespace thole::host
