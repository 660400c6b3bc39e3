// A queue's file that cannot be looked at is neither gone nor empty.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/same_file.hpp"
#include "host/own_directory.hpp"
#include "host/store/file_check.hpp"
#include "host/store/queue_dir.hpp"
#include "support/failing_calls.hpp"
#include "support/said.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

using Unseen = QueueTest;
using testing::HasSubstr;

constexpr int reasons[] = {ENOMEM, EACCES, EIO};

TEST_F(Unseen, AQueueThatCannotBeLookedAtIsNotBegunAnew) {
  submit();
  submit();
  store.reset();
  for (const int why : reasons) {
    const auto look = [&] { SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({}); };
    const auto add = [&] {
      const port::Submission one = job();
      SqliteJobStore(JobStoreOptions{.directory = directory}).submit({&one, 1}, at(1));
    };
    for (const std::function<void()>& work : {std::function<void()>(look), std::function<void()>(add)}) {
      std::string said;
      if (!test::where_no_path_can_be_seen(why, [&] { said = test::said(work); })) GTEST_SKIP() << "no seccomp here";
      EXPECT_THAT(said, HasSubstr(directory + "/queue.db"));
    }
    EXPECT_EQ(SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({}).size(), 2u) << why;
  }
}

TEST_F(Unseen, AnOpenFileThatCannotBeLookedAtWasNotSetAside) {
  submit();
  for (const int why : reasons) {
    bool replaced = true;
    if (!test::where_no_path_can_be_seen(why, [&] { replaced = store->replaced(); })) GTEST_SKIP() << "no seccomp here";
    EXPECT_FALSE(replaced) << why;
    submit();
  }
  EXPECT_EQ(store->jobs({}).size(), 1 + std::size(reasons));
}

TEST_F(Unseen, DoctorsLookThrowsToo) {
  submit();
  std::string said;
  if (!test::where_no_path_can_be_seen(EIO, [&] { said = test::said([&] { check_queue_file(directory); }); }))
    GTEST_SKIP() << "no seccomp here";
  EXPECT_THAT(said, HasSubstr("queue.db"));
}

// Otherwise another one would be chosen, or made, beside it.
TEST_F(Unseen, ADirectoryThatCannotBeLookedAtMayHoldTheQueue) {
  submit();
  QueuePaths paths;
  paths.state_home = directory;
  paths.var_lib = directory + "/none";
  paths.temporary = directory;
  paths.host = "here";
  paths.uid = ::geteuid();
  for (const int why : {ENOMEM, EIO}) {
    std::string said;
    if (!test::where_no_path_can_be_seen(why, [&] { said = test::said([&] { find_queue_dir(paths); }); }))
      GTEST_SKIP() << "no seccomp here";
    EXPECT_THAT(said, HasSubstr(directory)) << why;
    if (!test::where_no_path_can_be_seen(why, [&] { said = test::said([&] { find_own_directory(directory, ::geteuid()); }); }))
      GTEST_SKIP() << "no seccomp here";
    EXPECT_THAT(said, HasSubstr(directory)) << why;
  }
}

TEST_F(Unseen, OnlyTheWordThatThereIsNoneMeansSo) {
  const Fd file = open_at(AT_FDCWD, (directory + "/one").c_str(), O_RDWR | O_CREAT, 0600);
  for (const int why : reasons) {
    bool stands = false;
    std::string said;
    const bool there = test::where_no_path_can_be_seen(why, [&] {
      stands = is_at(directory + "/one", file.get());
      said = test::said([&] { is_there(directory + "/one"); });
    });
    if (!there) GTEST_SKIP() << "no seccomp here";
    EXPECT_TRUE(stands);
    EXPECT_THAT(said, HasSubstr("/one"));
  }
  EXPECT_TRUE(is_there(directory + "/one"));
  std::filesystem::remove(directory + "/one");
  EXPECT_FALSE(is_there(directory + "/one"));
  EXPECT_FALSE(is_at(directory + "/one", file.get()));
}

// What is a name, and no file that was seen, gives nothing way: here a link that leads nowhere.
TEST_F(Unseen, WhatCannotBeOpenedIsNotReplaced) {
  store.reset();
  std::filesystem::create_symlink(directory + "/nowhere", directory + "/queue.db");
  EXPECT_THAT(test::said([&] { SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({}); }), HasSubstr("queue.db"));
  EXPECT_TRUE(std::filesystem::is_symlink(directory + "/queue.db"));
}

TEST_F(Unseen, AnEmptyFileBecomesAQueue) {
  store.reset();
  std::ofstream(directory + "/queue.db").flush();
  store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory});
  EXPECT_EQ(submit(), 1u);
}

TEST_F(Unseen, NumbersOfEarlierJobsThatCannotBeReadAreNotGivenAgain) {
  store.reset();
  std::filesystem::create_directory(directory + "/logs");
  std::ofstream(directory + "/logs/41.log") << "x";
  std::filesystem::rename(directory + "/logs", directory + "/kept");
  std::filesystem::create_symlink(directory + "/logs", directory + "/logs");   // ELOOP
  EXPECT_THAT(test::said([&] { SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({}); }), HasSubstr("/logs"));
  std::filesystem::remove(directory + "/logs");
  std::filesystem::rename(directory + "/kept", directory + "/logs");
  store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory});
  EXPECT_EQ(submit(), 42u);
}

}  // namespace
}  // namespace thole::host
