#include "base/made.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

using namespace thole;

namespace {

// Each test with a umask of its own, set after the process has begun: the moment that this leaves is none of a single thread's.
class Made : public testing::TestWithParam<mode_t> {
 protected:
  Made() {
    char name[] = "/tmp/thole-made-XXXXXX";
    folder = ::mkdtemp(name);
    before = ::umask(GetParam());
  }
  ~Made() override {
    ::umask(before);
    std::filesystem::remove_all(folder);
  }

  mode_t mode_of(const std::string& name) const {
    struct stat found{};
    return ::lstat((folder + "/" + name).c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
  }
  mode_t left_of(mode_t mode) const { return (mode & ~GetParam()) | (mode & 0700); }
  std::string in(const char* name) const { return folder + "/" + name; }

  std::string folder;
  mode_t before = 0;
};

}  // namespace

TEST_P(Made, ThingsHaveTheirOwnersBitsAndOfOthersWhatTheUmaskLeaves) {
  EXPECT_TRUE(make_directory(in("directory"), 0755));
  EXPECT_TRUE(make_fifo_at(AT_FDCWD, in("fifo").c_str(), 0644));
  EXPECT_TRUE(create_at(AT_FDCWD, in("file").c_str(), O_RDWR, 0644));
  EXPECT_TRUE(make_directories(in("a/b/c"), 0755));
  EXPECT_EQ(mode_of("directory"), left_of(0755));
  EXPECT_EQ(mode_of("fifo"), left_of(0644));
  EXPECT_EQ(mode_of("file"), left_of(0644));
  for (const char* name : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(name), left_of(0755)) << name;
}

TEST_P(Made, WhatIsThereIsLeftAsItIs) {
  ASSERT_TRUE(make_directory(in("directory"), 0700));
  ASSERT_EQ(::chmod(in("directory").c_str(), 0500), 0);
  EXPECT_FALSE(make_directory(in("directory"), 0755));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(mode_of("directory"), 0500u);
  EXPECT_TRUE(make_directories(in("directory"), 0755));
  ASSERT_TRUE(create_at(AT_FDCWD, in("file").c_str(), O_WRONLY, 0600));
  EXPECT_FALSE(create_at(AT_FDCWD, in("file").c_str(), O_WRONLY | O_EXCL, 0600));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_TRUE(create_at(AT_FDCWD, in("file").c_str(), O_WRONLY, 0600));
  EXPECT_FALSE(make_directories(in("file/below"), 0700));
  EXPECT_FALSE(make_fifo_at(AT_FDCWD, in("file").c_str(), 0600));
}

INSTANTIATE_TEST_SUITE_P(Umasks, Made, testing::Values(022, 0, 077, 0177, 0111, 0477, 0777));

// In a process that began with the umask: nothing but what was meant has a name.
TEST(MadeUnderAUmask, ThingsAreNeverFoundWithoutTheirBits) {
  char name[] = "/tmp/thole-made-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto in = [&](const char* what) { return folder + "/" + what; };
  const pid_t child = ::fork();
  if (child == 0) {
    ::umask(0777);
    const bool right = make_directory(in("directory"), 0700) && !make_directory(in("directory"), 0700) &&
                       errno == EEXIST && create_at(AT_FDCWD, in("file").c_str(), O_RDWR, 0600) &&
                       create_at(AT_FDCWD, in("file").c_str(), O_RDWR, 0600) &&
                       !create_at(AT_FDCWD, in("file").c_str(), O_RDWR | O_EXCL, 0600) && errno == EEXIST &&
                       make_fifo_at(AT_FDCWD, in("fifo").c_str(), 0600) && !make_directory(in("not/there"), 0700) &&
                       errno == ENOENT && make_directories(in("a/b"), 0700);
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat about{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, S_ISDIR(about.st_mode) ? 0700u : 0600u) << entry.path();
    ++found;
  }
  EXPECT_EQ(found, 5u);
  std::filesystem::remove_all(folder);
}
