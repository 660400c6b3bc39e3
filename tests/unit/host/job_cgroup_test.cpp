// A cgroup of the command's own: where one is made, and on a directory tree in the place of the kernel's what is done with it.
// tests/system/test_job_cgroup.py has the kernel's.
#include "host/process/job_cgroup.hpp"

#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>

#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

TEST(UnifiedCgroup, IsTheLineOfHierarchyZero) {
  EXPECT_EQ(unified_cgroup("0::/user.slice/user-1000.slice\n"), "/user.slice/user-1000.slice");
  EXPECT_EQ(unified_cgroup("9:name=systemd:/\n4:memory:/job\n0::/job\n"), "/job");
  EXPECT_EQ(unified_cgroup("0::/\n"), "/");
  EXPECT_EQ(unified_cgroup("9:name=systemd:/\n"), "");
  EXPECT_EQ(unified_cgroup("0::/../other\n"), "") << "outside of our cgroup namespace";
  EXPECT_EQ(unified_cgroup(""), "");
}

class JobCgroupTree : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_ + "/proc/self");
    std::filesystem::create_directories(ours_);
    write_file(root_ + "/proc/self/cgroup", "4:memory:/elsewhere\n0::/lab.scope\n");
    if (::geteuid() == 0 && ::setxattr(ours_.c_str(), "user.delegate", "1", 1, 0) != 0)
      GTEST_SKIP() << "root's cgroups need systemd's mark, and this file system has no user attributes";
  }
  std::string made() const { return ours_ + "/thole-" + std::to_string(::getpid()); }

  claim_tests::TemporaryFolder folder_;
  std::string root_ = folder_.path, ours_ = root_ + "/sys/fs/cgroup/unified/lab.scope";
};

TEST_F(JobCgroupTree, IsMadeBelowOursAndRemovedWithWhatIsBelowIt) {
  JobCgroup cgroup(root_);
  ASSERT_GE(cgroup.directory(), 0);
  EXPECT_TRUE(std::filesystem::is_directory(made()));
  std::filesystem::create_directories(made() + "/thole-77/thole-78");
  cgroup.remove();
  EXPECT_FALSE(std::filesystem::exists(made()));
}

TEST_F(JobCgroupTree, IsKilledInOneWrite) {
  JobCgroup cgroup(root_);
  cgroup.kill();  // a kernel before 5.14 has no such file
  write_file(made() + "/cgroup.kill", "");
  cgroup.kill();
  EXPECT_EQ(read_file(made() + "/cgroup.kill"), "1");
  std::filesystem::remove(made() + "/cgroup.kill");
}

TEST_F(JobCgroupTree, WhatKilledSupervisorsLeftIsSwept) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string left = ours_ + "/thole-" + std::to_string(dead), living = ours_ + "/thole-" + std::to_string(::getppid()),
                    other = ours_ + "/session";
  for (const std::string& path : {left, living, other}) std::filesystem::create_directories(path);
  JobCgroup cgroup(root_);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(JobCgroupTree, IsNotMadeInACgroupOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  ::removexattr(ours_.c_str(), "user.delegate");
  EXPECT_LT(JobCgroup(root_).directory(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(ours_));
}

TEST(JobCgroup, IsNoneWhereThereIsNoUnifiedHierarchy) {
  JobCgroup cgroup("/nonexistent");
  EXPECT_LT(cgroup.directory(), 0);
  cgroup.kill();
  cgroup.remove();
}

}  // namespace
}  // namespace thole::host
