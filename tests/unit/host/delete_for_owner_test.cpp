// What root deletes of users: never by a name that leads elsewhere a moment later.
#include "host/claims/delete_for_owner.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

class DeleteForOwner : public testing::Test {
 protected:
  DeleteForOwner() {
    std::string pattern = (std::filesystem::temp_directory_path() / "thole-delete-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DeleteForOwner() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  static mode_t mode_of(const std::string& path) {
    struct stat found{};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }
  std::string folder_;
};
class DeleteWithRights : public DeleteForOwner, public testing::WithParamInterface<Rights> {};

// Somebody exchanges directories that he has closed for links, as fast as he can, while they are deleted.
TEST_P(DeleteWithRights, ADirectoryThatBecomesALinkLeadsNowhere) {
  const std::string victim = folder_ + "/victim", links = folder_ + "/links", evil = folder_ + "/evil";
  ::mkdir(victim.c_str(), 0055);                 // which its owner would be given, as those that are closed are
  for (int round = 0; round < 300; ++round) {
    ::mkdir(links.c_str(), 0700);
    ::mkdir(evil.c_str(), 0755);
    const Fd inside = open_at(AT_FDCWD, evil.c_str(), O_PATH | O_DIRECTORY);
    const Fd aside = open_at(AT_FDCWD, links.c_str(), O_PATH | O_DIRECTORY);
    for (int i = 0; i < 2; ++i) {
      ::mkdirat(inside.get(), std::to_string(i).c_str(), 0300);
      (void)!::symlinkat(victim.c_str(), aside.get(), std::to_string(i).c_str());
    }
    std::atomic<bool> begun = false, over = false;
    std::thread exchanging([&] {
      for (; !over; begun = true)
        for (int i = 0; i < 2; ++i) {
          const std::string name = std::to_string(i);
          ::syscall(SYS_renameat2, inside.get(), name.c_str(), aside.get(), name.c_str(), RENAME_EXCHANGE);
        }
    });
    const Fd parent = open_at(AT_FDCWD, folder_.c_str(), O_PATH | O_DIRECTORY);
    struct stat found{};
    ::fstatat(parent.get(), "evil", &found, AT_SYMLINK_NOFOLLOW);
    while (!begun) std::this_thread::yield();
    delete_entry(parent.get(), "evil", found, GetParam());
    over = true;
    exchanging.join();
    ASSERT_EQ(mode_of(victim), 0055u) << "round " << round;
    std::filesystem::remove_all(links);
    std::filesystem::remove_all(evil);
  }
}

TEST_P(DeleteWithRights, DirectoriesThatWereClosedAreGone) {
  if (::geteuid() != 0 && GetParam() == Rights::of_root) GTEST_SKIP() << "needs root";
  const std::string top = folder_ + "/top";
  std::filesystem::create_directories(top + "/a/b/c");
  ::chmod((top + "/a/b").c_str(), 0);
  ::chmod((top + "/a").c_str(), 0300);
  const Fd parent = open_at(AT_FDCWD, folder_.c_str(), O_PATH | O_DIRECTORY);
  struct stat found{};
  ::fstatat(parent.get(), "top", &found, AT_SYMLINK_NOFOLLOW);
  EXPECT_EQ(delete_entry(parent.get(), "top", found, GetParam()), "");
  EXPECT_FALSE(std::filesystem::exists(top));
}

// The same without a race: what was looked at was a directory, and is a link by now.
TEST_F(DeleteForOwner, ALinkThatWasADirectoryLeadsNowhere) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: what belongs to another user";
  constexpr uid_t anna = 60001;
  const std::string victim = folder_ + "/victim", evil = folder_ + "/evil";
  struct stat found{};
  ASSERT_TRUE(::mkdir(evil.c_str(), 0700) == 0 && ::chown(evil.c_str(), anna, anna) == 0);
  ASSERT_EQ(::lstat(evil.c_str(), &found), 0);
  ASSERT_TRUE(::rmdir(evil.c_str()) == 0 && ::mkdir(victim.c_str(), 0055) == 0 && ::chown(victim.c_str(), anna, anna) == 0);
  ASSERT_TRUE(::symlink("victim", evil.c_str()) == 0 && ::chmod(folder_.c_str(), 0755) == 0);
  const Fd parent = open_at(AT_FDCWD, folder_.c_str(), O_PATH | O_DIRECTORY);
  EXPECT_NE(delete_entry(parent.get(), "evil", found, Rights::of_the_owner), "");
  EXPECT_EQ(mode_of(victim), 0055u);
}

// Root needs nothing opened, so nothing has another mode where something cannot be deleted.
TEST_F(DeleteForOwner, WhatRootCannotDeleteKeepsItsMode) {
  std::filesystem::create_directories(folder_ + "/top/mounted");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string mounted = folder_ + "/top/mounted";
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", mounted.c_str(), "tmpfs", 0, "mode=0555") != 0)
      ::_exit(77);
    const Fd parent = open_at(AT_FDCWD, folder_.c_str(), O_PATH | O_DIRECTORY);
    struct stat found{};
    ::fstatat(parent.get(), "top", &found, AT_SYMLINK_NOFOLLOW);
    const bool kept = !delete_entry(parent.get(), "top", found, Rights::of_root).empty();
    ::stat(mounted.c_str(), &found);
    ::_exit(!kept ? 1 : (found.st_mode & 07777) == 0555 ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs root: a mount";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: it is gone, 2: it was opened";
}

INSTANTIATE_TEST_SUITE_P(Both, DeleteWithRights, testing::Values(Rights::of_root, Rights::of_the_owner),
                         [](const auto& one) { return one.param == Rights::of_root ? "AsRoot" : "AsTheOwner"; });

}  // namespace
}  // namespace thole::host
