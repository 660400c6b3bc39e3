#include "plan/job/lanes.hpp"

#include <gtest/gtest.h>

namespace thole::plan {
namespace {

using model::Job;
using model::TaskState;

// GPU classes 1 and 2 overlap; 3 is apart.
bool overlap(std::uint64_t one, std::uint64_t other) { return one == other || (one < 3 && other < 3); }

Job job(model::JobId id, std::uint64_t request_class, std::uint64_t queued, int priority = 0, unsigned gpus = 1) {
  Job made;
  made.id = id;
  made.request_class = request_class;
  made.gpus = gpus;
  made.tasks = queued;
  made.terms.priority = priority;
  made.counts[TaskState::queued] = queued;
  return made;
}

LaneState lane(unsigned number, model::JobId id, std::uint64_t request_class, bool claimed, int priority = 0,
               unsigned gpus = 1) {
  return {number, id, request_class, priority, gpus, claimed, false};
}

// One that stands in line while others go past it.
LaneState passed(unsigned number, model::JobId id, std::uint64_t request_class, int priority = 0) {
  LaneState made = lane(number, id, request_class, false, priority);
  made.passed_over = true;
  return made;
}

LanePlan plan(std::vector<Job> candidates, std::vector<LaneState> lanes, unsigned cpus = 2) {
  return plan_lanes(candidates, lanes, cpus, overlap);
}

using Jobs = std::vector<model::JobId>;
using SlotNumbers = std::vector<unsigned>;

TEST(Lanes, OneWaitsForEachOverlappingSet) {
  EXPECT_EQ(plan({job(1, 1, 9), job(2, 2, 9), job(3, 3, 9)}, {}).start, (Jobs{1, 3}));
  EXPECT_EQ(plan({job(1, 1, 9)}, {lane(0, 1, 1, false)}).start, Jobs{});
}

TEST(Lanes, TheNextIsStartedWhenTheWaitingOneHasItsClaim) {
  EXPECT_EQ(plan({job(1, 1, 9)}, {lane(0, 1, 1, true)}).start, Jobs{1});
}

// Submitted some seconds after the first one; declares so many.
Job timed(model::JobId id, std::uint64_t request_class, long submitted, std::optional<long> declared, int priority = 0) {
  Job made = job(id, request_class, 9, priority);
  made.submitted = WallTime{} + Seconds{submitted};
  if (declared) made.terms.time = Seconds{*declared};
  return made;
}

Jobs in_order(std::vector<Job> jobs) {
  std::vector<const Job*> order;
  for (const Job& one : jobs) order.push_back(&one);
  put_in_order(order);
  Jobs ids;
  for (const Job* one : order) ids.push_back(one->id);
  return ids;
}

TEST(Lanes, OfEqualPriorityTheShorterOneGoesFirstAndStarvesNoLongOne) {
  EXPECT_EQ(in_order({timed(1, 1, 0, 100), timed(2, 2, 5, 10)}), (Jobs{2, 1}));
  EXPECT_EQ(in_order({timed(1, 1, 0, 100), timed(2, 2, 95, 10)}), (Jobs{1, 2})) << "it came too late for that";
  EXPECT_EQ(in_order({timed(1, 1, 0, 10), timed(2, 2, 0, 10)}), (Jobs{1, 2}));
  EXPECT_EQ(in_order({timed(1, 1, 0, {}), timed(2, 2, 5, 10)}), (Jobs{1, 2})) << "who declares nothing is passed by nobody";
  EXPECT_EQ(in_order({timed(1, 1, 0, 100), timed(2, 1, 1, {}), timed(3, 2, 5, 10)}), (Jobs{1, 2, 3})) << "and passes nobody";
  EXPECT_EQ(in_order({timed(1, 1, 0, 10), timed(2, 2, 5, 100, 1)}), (Jobs{2, 1})) << "a higher priority goes before";
  EXPECT_EQ(in_order({timed(2, 1, 0, {}), timed(1, 1, 9, {})}), (Jobs{1, 2})) << "plain order where nothing is declared";
}

TEST(Lanes, TheShorterOneIsTheNextInLineAndTakesNobodysTicket) {
  const std::vector<Job> jobs{timed(1, 1, 0, 100), timed(2, 2, 5, 10)};
  EXPECT_EQ(plan(jobs, {}).start, Jobs{2});
  const LanePlan waits = plan(jobs, {lane(0, 1, 1, false)});
  EXPECT_TRUE(waits.start.empty() && waits.give_way.empty()) << "the long one's ticket is the older one";
  EXPECT_EQ(plan(jobs, {lane(0, 1, 1, true)}).start, Jobs{2});
}

TEST(Lanes, NoMoreThanTasksAreLeft) {
  Job one = job(1, 0, 1, 0, 0);
  EXPECT_EQ(plan({one}, {lane(0, 1, 0, false, 0, 0)}).start, Jobs{});
  EXPECT_EQ(plan({job(1, 0, 9, 0, 0)}, {}).start, (Jobs{1, 1}));
}

TEST(Lanes, AtMostCountsThoseThatAreComing) {
  Job bounded = job(1, 0, 9, 0, 0);
  bounded.terms.at_most = 2;
  bounded.counts[TaskState::running] = 1;
  EXPECT_EQ(plan({bounded}, {lane(0, 1, 0, true, 0, 0)}, 8).start, Jobs{1});
}

TEST(Lanes, JobsWithoutGpusWaitForCpusOnly) {
  EXPECT_EQ(plan({job(1, 1, 1), job(2, 0, 5, 0, 0)}, {lane(0, 7, 1, false)}, 3).start, (Jobs{2, 2, 2}));
}

TEST(Lanes, AWaitingLaneOfLowerStandingGivesWay) {
  const LanePlan urgent = plan({job(9, 2, 1, 5), job(1, 1, 9)}, {lane(0, 1, 1, false)});
  EXPECT_EQ(urgent.give_way, SlotNumbers{0});
  EXPECT_EQ(urgent.start, Jobs{});   // when that one has left
}

TEST(Lanes, AWaitingLaneOfABetterJobStays) {
  const LanePlan all = plan({job(1, 1, 1, 5), job(2, 2, 9)}, {lane(0, 1, 1, false, 5)});
  EXPECT_EQ(all.give_way, SlotNumbers{});
  EXPECT_EQ(all.start, Jobs{});
}

TEST(Lanes, AWaitingLaneServesTheBestJobOfItsClass) {
  const LanePlan urgent = plan({job(9, 1, 1, 5), job(1, 1, 9)}, {lane(0, 1, 1, false)});
  EXPECT_EQ(urgent.give_way, SlotNumbers{});
}

TEST(Lanes, AsManyEndAfterTheirTaskAsAHigherPriorityTakes) {
  const std::vector<LaneState> busy = {lane(0, 1, 1, true), lane(1, 1, 1, true), lane(2, 1, 1, true)};
  const LanePlan urgent = plan({job(9, 2, 1, 5, 2)}, busy);
  EXPECT_EQ(urgent.give_way, (SlotNumbers{0, 1}));
  EXPECT_EQ(urgent.start, Jobs{9});
  EXPECT_EQ(plan({job(9, 2, 1, 0, 2)}, busy).give_way, SlotNumbers{});   // the same priority: the older one goes on
}

TEST(Lanes, WhoIsPassedOverInTheLineHoldsUpNobodyAndStaysInIt) {
  const LanePlan behind = plan({job(1, 1, 1, 5), job(2, 2, 1)}, {passed(0, 1, 1, 5)});
  EXPECT_EQ(behind.start, Jobs{2}) << "whatever its priority";
  EXPECT_EQ(behind.give_way, SlotNumbers{});
  EXPECT_EQ(plan({job(1, 1, 1), job(2, 2, 9)}, {passed(0, 1, 1), lane(1, 2, 2, false)}).start, Jobs{}) << "one waits already";
  EXPECT_EQ(plan({job(1, 1, 1), job(2, 2, 9)}, {passed(0, 1, 1), lane(1, 2, 2, true)}).start, Jobs{2}) << "the next of it";
}

TEST(Lanes, BeforeItIsKnownToBePassedOverNobodyGoesPastIt) {
  EXPECT_EQ(plan({job(1, 1, 1), job(2, 2, 1)}, {lane(0, 1, 1, false)}).start, Jobs{});
  EXPECT_EQ(plan({job(1, 1, 1), job(2, 2, 1)}, {}).start, Jobs{1});
}

TEST(Lanes, JobsOfItsKindStandBehindIt) {
  const LanePlan same = plan({job(1, 1, 1), job(2, 2, 1), job(3, 1, 1)}, {passed(0, 1, 1), lane(1, 2, 2, false)});
  EXPECT_EQ(same.start, Jobs{});
  EXPECT_EQ(same.give_way, SlotNumbers{});
}

TEST(Lanes, OneThatIsPassedOverGivesWayToABetterJob) {
  const LanePlan urgent = plan({job(9, 2, 1, 5), job(1, 1, 1)}, {passed(0, 1, 1)});
  EXPECT_EQ(urgent.give_way, SlotNumbers{0});
  EXPECT_EQ(urgent.start, Jobs{}) << "when that one has left";
}

TEST(Lanes, SoManyKindsArePassedOverAndNoMore) {
  std::vector<Job> jobs;
  std::vector<LaneState> waiting;
  for (unsigned n = 0; n < most_passed_over; ++n) {
    jobs.push_back(job(n + 1, 100 + n, 1));
    waiting.push_back(passed(n, n + 1, 100 + n));
  }
  const auto all = [](std::uint64_t, std::uint64_t) { return true; };
  jobs.push_back(job(50, 50, 1));
  EXPECT_EQ(plan_lanes(jobs, waiting, 1, all).start, Jobs{50});
  jobs.insert(jobs.end() - 1, job(40, 40, 1));
  waiting.push_back(passed(40, 40, 40));
  EXPECT_EQ(plan_lanes(jobs, waiting, 1, all).start, Jobs{});
}

TEST(Lanes, AWaitingLaneWithNothingLeftToStartLeavesTheLine) {
  EXPECT_EQ(plan({}, {lane(0, 1, 1, false), lane(1, 2, 3, true)}).give_way, SlotNumbers{0});
}

}  // namespace
}  // namespace thole::plan
