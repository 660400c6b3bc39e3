// How long a waiter waits for safe-gpu's users in sum.
#include <gtest/gtest.h>

#include "host/claims/safe_gpu_lock.hpp"

namespace thole::host {
namespace {

using namespace std::chrono_literals;

TEST(SafeGpuPatience, WhoLetsGoJustInTimeAgainAndAgainCostsThreeSecondsAMinute) {
  SafeGpuPatience patience;
  SteadyTime now = SteadyTime{} + 1h;
  EXPECT_EQ(patience.left(now), 3s);
  Millis waited{0};
  for (const SteadyTime begin = now; now - begin < 10min; now += 500ms) {
    const Millis one = patience.left(now);
    patience.spend(one);
    waited += one;
    now += one;
  }
  EXPECT_LE(waited, 3s + 10 * 3s);
  EXPECT_GE(waited, 10 * 2s) << "and he has his time to choose";
}

TEST(SafeGpuPatience, ComesBackWhereNobodyKeepsIt) {
  SafeGpuPatience patience;
  SteadyTime now = SteadyTime{} + 1h;
  patience.spend(patience.left(now));
  EXPECT_EQ(patience.left(now), 0s);
  EXPECT_EQ(patience.left(now + 30s), 1500ms);
  EXPECT_EQ(patience.left(now + 1h), 3s);
}

}  // namespace
}  // namespace thole::host
