#include "plan/simulate/simulate.hpp"

#include <gtest/gtest.h>

namespace thole::plan {
namespace {

PastJob past_job(long arrival, long duration, unsigned gpus, std::optional<long> declared = {}) {
  PastJob made{Seconds{arrival}, Seconds{duration}, gpus, {}};
  if (declared) made.declared = Seconds{*declared};
  return made;
}

// Two GPUs: one job runs, a wide one waits, a narrow one comes.
std::vector<PastJob> narrow_behind_wide(std::optional<long> narrow_declares) {
  return {past_job(0, 100, 1, 100), past_job(1, 50, 2, 50), past_job(2, 90, 1, narrow_declares)};
}

double total_wait(const Played& played) { return played.all.mean_s * static_cast<double>(played.all.jobs); }

TEST(Simulate, PlainOrderLetsNobodyPass) {
  const Played played = play(narrow_behind_wide(90), 2, QueuePolicy::fifo);
  EXPECT_DOUBLE_EQ(total_wait(played), 0 + 99 + 148);
  EXPECT_EQ(played.late, 0u);
}

TEST(Simulate, TheRuleLetsPassWhoHarmsNobody) {
  EXPECT_DOUBLE_EQ(total_wait(play(narrow_behind_wide(90), 2, QueuePolicy::thole)), 0 + 99 + 0);
  EXPECT_DOUBLE_EQ(total_wait(play(narrow_behind_wide(99), 2, QueuePolicy::thole)), 0 + 99 + 148) << "until 101: too long";
  EXPECT_DOUBLE_EQ(total_wait(play(narrow_behind_wide({}), 2, QueuePolicy::thole)), 0 + 99 + 148) << "nothing declared";
}

TEST(Simulate, WhoeverFitsFirstBreaksWhatARuleCouldPromise) {
  std::vector<PastJob> jobs = narrow_behind_wide(99);
  jobs[2].duration = Seconds{99};
  const Played played = play(jobs, 2, QueuePolicy::first_fit);
  EXPECT_DOUBLE_EQ(total_wait(played), 0 + 100 + 0);
  EXPECT_EQ(played.promised, 1u);
  EXPECT_EQ(played.late, 1u);
}

// Three GPUs: two are busy until 100, a job for two is the head, one for all three comes next, and a long narrow one last.
TEST(Simulate, EasyBackfillKeepsOnlyWhatTheHeadIsPromised) {
  const std::vector<PastJob> jobs{past_job(0, 100, 2, 100), past_job(1, 50, 2, 50), past_job(2, 10, 3, 10),
                                  past_job(3, 200, 1, 200)};
  const Played easy = play(jobs, 3, QueuePolicy::easy), fifo = play(jobs, 3, QueuePolicy::fifo);
  EXPECT_EQ(easy.starts, (std::vector<Seconds>{Seconds{0}, Seconds{100}, Seconds{203}, Seconds{3}}));
  EXPECT_EQ(easy.late, 1u);
  EXPECT_EQ(later_than(easy, fifo), 1u);
  const Played thole = play(jobs, 3, QueuePolicy::thole);
  EXPECT_EQ(thole.starts, (std::vector<Seconds>{Seconds{0}, Seconds{100}, Seconds{150}, Seconds{160}}));
  EXPECT_EQ(thole.late, 0u);
  EXPECT_EQ(later_than(thole, fifo), 0u);
  EXPECT_DOUBLE_EQ(total_wait(play(narrow_behind_wide({}), 2, QueuePolicy::easy)), 0 + 99 + 148) << "nothing declared";
}

TEST(Simulate, OfThoseWhoMayPassTheShortestGoesFirst) {
  const std::vector<PastJob> jobs{past_job(0, 100, 1, 100), past_job(0, 10, 1, 10), past_job(1, 50, 2, 50),
                                  past_job(2, 80, 1, 80), past_job(3, 30, 1, 30)};
  EXPECT_EQ(play(jobs, 2, QueuePolicy::thole).starts,
            (std::vector<Seconds>{Seconds{0}, Seconds{0}, Seconds{100}, Seconds{150}, Seconds{10}}));
  EXPECT_EQ(play(jobs, 2, QueuePolicy::easy).starts,
            (std::vector<Seconds>{Seconds{0}, Seconds{0}, Seconds{100}, Seconds{10}, Seconds{150}}));
}

TEST(Simulate, FiguresAreOfAllAndOfTheWide) {
  const Played played =
      play({past_job(0, 10, 4), past_job(0, 10, 4), past_job(0, 10, 4), past_job(0, 10, 1)}, 4, QueuePolicy::fifo);
  EXPECT_EQ(played.all.jobs, 4u);
  EXPECT_DOUBLE_EQ(played.all.mean_s, 15);
  EXPECT_DOUBLE_EQ(played.all.median_s, 10);
  EXPECT_DOUBLE_EQ(played.all.p95_s, 30);
  EXPECT_EQ(played.wide.jobs, 3u);
  EXPECT_DOUBLE_EQ(played.wide.mean_s, 10);
  EXPECT_DOUBLE_EQ(played.use, 130.0 / 160);
}

TEST(Simulate, NoJobsAndJobsOfNoLength) {
  EXPECT_EQ(play({}, 4, QueuePolicy::thole).all.jobs, 0u);
  EXPECT_DOUBLE_EQ(play({past_job(5, 0, 1), past_job(5, 0, 1)}, 1, QueuePolicy::thole).all.mean_s, 0);
}

TEST(Simulate, PoliciesHaveNames) {
  for (const QueuePolicy policy : {QueuePolicy::thole, QueuePolicy::fifo, QueuePolicy::first_fit, QueuePolicy::easy})
    EXPECT_EQ(parse_queue_policy(to_string(policy)), policy);
  EXPECT_FALSE(parse_queue_policy("fair"));
}

}  // namespace
}  // namespace thole::plan
