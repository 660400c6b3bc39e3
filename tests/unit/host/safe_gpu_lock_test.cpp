#include "host/claims/safe_gpu_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct SafeGpu : ClaimStoreTest {
  std::string file = folder.path + "/gpu-lock", absent = folder.path + "/safe_gpu/gpu-lock";
  std::vector<std::string> warnings;
  std::function<void(const std::string&)> warn = [this](const std::string& text) { warnings.push_back(text); };

  void SetUp() override { std::ofstream(file) << ""; }

  // As Python's fcntl.lockf(LOCK_EX | LOCK_NB) does it.
  static bool lockf_now(const std::string& path) {
    Fd fd = open_at(AT_FDCWD, path.c_str(), O_WRONLY);
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    if (::fcntl(fd.get(), F_SETLK, &range) != 0) return false;
    fd.release();  // kept: closing any descriptor of the file would drop a POSIX lock
    return true;
  }
};

TEST_F(SafeGpu, WhileWeChooseTheyDoNot) {
  {
    SafeGpuLock ours({absent, file}, warn);
    EXPECT_TRUE(ours.complete());
    EXPECT_EQ(Child([&](Child&) { return lockf_now(file) ? 1 : 0; }).wait(), 0);
  }
  EXPECT_EQ(Child([&](Child&) { return lockf_now(file) ? 0 : 1; }).wait(), 0);
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(std::filesystem::exists(absent)) << "no file is made";
}

TEST_F(SafeGpu, WhileTheyChooseWeWaitButNotForEver) {
  Child theirs([&](Child& self) {
    self.say(lockf_now(file) ? 'l' : '-');
    self.hear();
    return 0;
  });
  ASSERT_EQ(theirs.hear(), 'l');
  EXPECT_TRUE(SafeGpuLock({file}, warn).kept());
  wait_for_safe_gpu({file}, Millis(1600), warn);
  EXPECT_EQ(warnings.size(), 1u) << "it is named";
  std::thread ends([&] { theirs.say('!'); });
  wait_for_safe_gpu({file}, Seconds(20), warn);
  ends.join();
  EXPECT_TRUE(SafeGpuLock({file}, warn).complete());
}

TEST_F(SafeGpu, WhoWaitsForItHasNothingLocked) {
  std::ofstream(absent = folder.path + "/gpu-lock-2") << "";
  Child theirs([&](Child& self) {
    self.say(lockf_now(absent) ? 'l' : '-');
    self.hear();
    return 0;
  });
  ASSERT_EQ(theirs.hear(), 'l');
  std::thread waits([&] { wait_for_safe_gpu({file, absent}, Seconds(20), warn); });
  EXPECT_EQ(Child([&](Child&) { return lockf_now(file) ? 0 : 1; }).wait(), 0);
  theirs.say('!');
  waits.join();
}

TEST_F(SafeGpu, AFileThatIsNotOursToWriteOnlyWarns) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  ::chmod(file.c_str(), 0644);
  Child child([&](Child&) {
    if (::setresuid(60001, 60001, 60001) != 0) return 9;
    SafeGpuLock ours({file}, warn);
    return !ours.complete() && warnings.size() == 1 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SafeGpu, TheStoreHoldsTheLockWhileItsRuleDecides) {
  auto made = options(StateLocation::named(directory));
  made.neighbours = {file};
  auto store = open_claim_store(made);
  bool excluded = false;
  (void)store->enter(entry({"GPU-0"}))->step([&](auto&&...) -> model::Decision {
    excluded = Child([&](Child&) { return lockf_now(file) ? 1 : 0; }).wait() == 0;
    return model::Refuse{};
  });
  EXPECT_TRUE(excluded);
  EXPECT_EQ(Child([&](Child&) { return lockf_now(file) ? 0 : 1; }).wait(), 0) << "and not a moment longer";
}

}  // namespace
}  // namespace thole::host::claim_tests
