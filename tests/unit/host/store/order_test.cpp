// Which jobs of a class go first: what plan::put_in_order says of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/job/lanes.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

using testing::ElementsAre;

class QueueOrder : public QueueTest {
 protected:
  model::JobId timed(std::optional<Seconds> time, WallTime now, unsigned gpus = 1, int priority = 0) {
    port::Submission one = job();
    one.spec.request.gpus = gpus;
    one.terms.priority = priority;
    one.terms.time = time;
    return submit(one, now);
  }

  std::vector<model::Job> in_order(std::vector<model::Job> jobs) const {
    std::vector<const model::Job*> order;
    for (const model::Job& job : jobs) order.push_back(&job);
    plan::put_in_order(order);
    std::vector<model::Job> sorted;
    for (const model::Job* job : order) sorted.push_back(*job);
    return sorted;
  }

  // Ids by class of the first of each, of what is left when all others of the class are dropped.
  static std::map<std::uint64_t, std::vector<model::JobId>> first_of_each(const std::vector<model::Job>& order, unsigned most) {
    std::map<std::uint64_t, std::vector<model::JobId>> first;
    for (const model::Job& job : order)
      if (std::vector<model::JobId>& ids = first[job.request_class]; ids.size() < most) ids.push_back(job.id);
    return first;
  }
};

TEST_F(QueueOrder, OfEqualRequestsTheShorterGoesFirst) {
  const auto six = timed(Seconds{6 * 3600}, at(1)), ten = timed(Seconds{10 * 3600}, at(2)), one = timed(Seconds{3600}, at(3));
  std::vector<model::JobId> ids;
  for (const model::Job& job : in_order(store->candidates(at(9), 1))) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre(one));
  ids.clear();
  for (const model::Job& job : in_order(store->candidates(at(9), 3))) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre(one, six, ten));
}

TEST_F(QueueOrder, NobodyGoesBeforeOneThatHasDeclaredNothingAndCameFirst) {
  const auto ten = timed(Seconds{36'000}, at(1));
  timed(std::nullopt, at(2), 2);                 // of another kind
  timed(Seconds{60}, at(3));
  const auto all = in_order(store->candidates(at(9), 1));
  EXPECT_EQ(all.front().id, ten);
}

TEST_F(QueueOrder, IsThatOfAllJobsHoweverFewAreLookedAt) {
  std::mt19937 random(1);
  const auto among = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::set<std::size_t> seen;
  for (unsigned round = 0; round < 40; ++round) {
    std::vector<model::JobId> made;
    for (unsigned i = 0, jobs = 2 + among(14); i < jobs; ++i) {
      const auto time = among(4) == 0 ? std::nullopt : std::optional(Seconds{60 * (1 + among(600))});
      made.push_back(timed(time, at(static_cast<int>(i * 900)), among(3), static_cast<int>(among(2))));
    }
    const std::vector<model::Job> order = in_order(store->candidates(at(100'000), 1000));
    ASSERT_EQ(order.size(), made.size());
    for (const unsigned most : {1u, 2u, 4u}) {
      const std::vector<model::Job> some = in_order(store->candidates(at(100'000), most));
      ASSERT_EQ(first_of_each(some, most), first_of_each(order, most)) << "round " << round << ", " << most << " of each";
      // and between classes
      std::vector<model::JobId> ids, wanted;
      std::set<model::JobId> known;
      for (const model::Job& job : some) ids.push_back(job.id), known.insert(job.id);
      for (const model::Job& job : order)
        if (known.contains(job.id)) wanted.push_back(job.id);
      ASSERT_EQ(ids, wanted) << "round " << round << ", " << most << " of each";
      seen.insert(some.size());
    }
    for (const model::JobId id : made) run_all(id);
  }
  EXPECT_GT(seen.size(), 5u);
}

}  // namespace
}  // namespace thole::host
