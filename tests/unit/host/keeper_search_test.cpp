// Who keeps the guard of a lost directory, by descriptors: of whom there is time to look at, of which thread.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "base/stream.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/fallback_claims.hpp"
#include "host/claims/guard.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

constexpr uid_t another = 54321;

struct Ids {
  uid_t real, effective;
};

// A process of these users that keeps the guard of a fallback, and maybe the lock of a node that has lost its name.
struct KeeperSearchTest : ::testing::Test {
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of two users";
  }

  int keep(Child& self, Ids ids, bool a_claim) const {
    const Fd parent = open_at(AT_FDCWD, folder.path.c_str(), O_RDONLY | O_DIRECTORY);
    struct flock byte = guard.lock(F_RDLCK);
    const std::string node = folder.path + "/node";
    Fd fifo;
    if (::fcntl(parent.get(), F_OFD_SETLK, &byte) != 0) return 1;
    if (a_claim && ::mkfifo(node.c_str(), 0600) == 0) fifo = open_at(AT_FDCWD, node.c_str(), O_RDWR);
    if (a_claim && (::flock(fifo.get(), LOCK_EX) != 0 || ::unlink(node.c_str()) != 0)) return 1;
    if (::setresuid(ids.real, ids.effective, ids.effective) != 0) return 1;
    self.say('k'), self.hear();
    return 0;
  }

  std::string claimed(std::chrono::nanoseconds limit) const {
    std::string directory;
    return claimed_in_fallback(paths, {}, directory, limit);
  }

  TemporaryFolder folder;
  StatePaths paths{folder.path + "/run", {folder.path + "/lost"}, 0};
  Guard guard = guard_of(paths.fallbacks.front());
};

// One that has no time left.
Allowance spent() {
  Allowance allowance{std::chrono::nanoseconds{0}};
  while (!allowance.over()) {}
  return allowance;
}

TEST_F(KeeperSearchTest, StrangersAreLookedAtWhileThereIsTimeAndElseAreMissed) {
  const KeeperOf wanted{guard};
  for (const Ids ids : {Ids{another, another}, Ids{another, 0}}) {   // also what a program of root's does for one
    Child keeper([&](Child& self) { return keep(self, ids, false); });
    ASSERT_EQ(keeper.hear(), 'k');
    Allowance none = spent(), enough{std::chrono::minutes{1}};
    KeeperSearch late(wanted, none), early(wanted, enough);
    EXPECT_FALSE(late.is_keeper(keeper.pid()));
    EXPECT_TRUE(late.missed_any());
    EXPECT_NE(late.missed().find(std::to_string(keeper.pid())), std::string::npos);
    EXPECT_TRUE(early.is_keeper(keeper.pid()));
    EXPECT_FALSE(early.missed_any());
    keeper.say('!');
    EXPECT_EQ(keeper.wait(), 0);
  }
  Child ours([&](Child& self) { return keep(self, {0, 0}, false); });
  ASSERT_EQ(ours.hear(), 'k');
  Allowance none = spent();
  KeeperSearch late(wanted, none);
  EXPECT_TRUE(late.is_keeper(ours.pid()));
  EXPECT_FALSE(late.missed_any());
}

// That nobody has a claim in it is to be certain, where somebody keeps its guard.
TEST_F(KeeperSearchTest, WhereThereIsNoTimeForAllALostFallbackMayBeClaimed) {
  using namespace std::chrono_literals;
  EXPECT_EQ(claimed(0ns), "") << "nobody keeps its guard";
  {
    Child keeper([&](Child& self) { return keep(self, {another, another}, false); });
    ASSERT_EQ(keeper.hear(), 'k');
    EXPECT_EQ(claimed(1min), "") << "who keeps the guard has no claim";
    EXPECT_NE(claimed(0ns).find("cannot be told"), std::string::npos) << claimed(0ns);
  }
  Child keeper([&](Child& self) { return keep(self, {another, another}, true); });
  ASSERT_EQ(keeper.hear(), 'k');
  EXPECT_NE(claimed(1min).find(std::to_string(keeper.pid())), std::string::npos) << claimed(1min);
  EXPECT_NE(claimed(0ns), "");
}

TEST_F(KeeperSearchTest, AThreadMayHaveDescriptorsOfItsOwn) {
  Child keeper([&](Child& self) {
    int failed = 1;
    std::thread([&] {
      if (::unshare(CLONE_FILES) == 0) failed = keep(self, {0, 0}, true);
    }).join();
    return failed;
  });
  ASSERT_EQ(keeper.hear(), 'k');
  EXPECT_EQ(keepers_anywhere({guard}), std::vector<pid_t>{keeper.pid()});
  EXPECT_NE(claimed(std::chrono::minutes{1}), "");
}

}  // namespace
}  // namespace thole::host::claim_tests
