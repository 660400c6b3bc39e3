#include "host/store/queue_dir.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "host/store/job_store.hpp"

namespace thole::host {

using ::testing::ElementsAre;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

namespace {

// In these tests a path with "nfs" in it is on a network, one with "ram" in memory.
Disk by_name(const std::string& path) {
  if (path.find("nfs") != std::string::npos) return Disk::foreign;
  return path.find("ram") != std::string::npos ? Disk::gone_after_reboot : Disk::local;
}

class QueueDirectory : public ::testing::Test {
 protected:
  QueueDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "thole_dir_XXXXXX";
    root = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(root + "/tmp");
    paths.state_home = root + "/home";
    paths.var_lib = root + "/lib";
    paths.temporary = root + "/tmp";
    paths.host = "box";
    paths.uid = ::geteuid();
    paths.disk = by_name;
    user = std::to_string(paths.uid);
  }
  ~QueueDirectory() override { std::filesystem::remove_all(root); }

  std::string refusal() {
    try {
      open_queue_dir(paths);
    } catch (const Error& error) {
      return error.full();
    }
    return "";
  }

  std::string root, user;
  QueuePaths paths;
};

}  // namespace

TEST_F(QueueDirectory, IsInTheStateHomeOfALocalDisk) {
  const QueueDir dir = open_queue_dir(paths);
  EXPECT_EQ(dir.path, root + "/home/thole/queue/box");
  EXPECT_FALSE(dir.moved);
  EXPECT_THAT(dir.cautions, IsEmpty());
  struct stat made;
  ASSERT_EQ(::stat(dir.path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
}

TEST_F(QueueDirectory, IsMovedToALocalDiskFromAHomeOnTheNetwork) {
  paths.state_home = root + "/nfs/home";
  const QueueDir dir = open_queue_dir(paths);
  EXPECT_EQ(dir.path, root + "/tmp/thole-" + user + "/queue/box");
  EXPECT_TRUE(dir.moved);
  EXPECT_THAT(dir.cautions, ElementsAre(HasSubstr("nfs/home is on no local disk")));
  EXPECT_FALSE(std::filesystem::exists(paths.state_home));
}

TEST_F(QueueDirectory, IsMovedToWhatInitMade) {
  paths.state_home = root + "/nfs/home";
  std::filesystem::create_directories(root + "/lib/" + user);
  std::filesystem::permissions(root + "/lib/" + user, std::filesystem::perms(0700));
  EXPECT_EQ(open_queue_dir(paths).path, root + "/lib/" + user + "/queue/box");
}

TEST_F(QueueDirectory, OfAQueueThatIsThereStays) {
  paths.state_home = root + "/nfs/home";
  const std::string first = open_queue_dir(paths).path;
  { std::ofstream(first + "/queue.db"); }
  std::filesystem::create_directories(root + "/lib/" + user);
  std::filesystem::permissions(root + "/lib/" + user, std::filesystem::perms(0700));
  EXPECT_EQ(open_queue_dir(paths).path, first);
  EXPECT_EQ(find_queue_dir(paths)->path, first);
}

TEST_F(QueueDirectory, OfAUserWithoutAHomeIsOnALocalDisk) {
  paths.state_home.clear();
  EXPECT_EQ(open_queue_dir(paths).path, root + "/tmp/thole-" + user + "/queue/box");
}

TEST_F(QueueDirectory, OfAUserWhoseHomeCannotBeWrittenIsElsewhereAndSaysSo) {
  EXPECT_EQ(open_queue_dir(paths).unexpected, "");
  paths.state_home = root + "/file/home";        // where not even root makes a directory
  { std::ofstream(root + "/file"); }
  paths.host = "other";
  const QueueDir dir = open_queue_dir(paths);
  EXPECT_EQ(dir.path, root + "/tmp/thole-" + user + "/queue/other");
  EXPECT_EQ(dir.unexpected, root + "/file/home cannot be written, so the queue of this host lies in " + dir.path);
  { std::ofstream(dir.path + "/queue.db"); }
  EXPECT_EQ(find_queue_dir(paths)->unexpected, dir.unexpected);
  paths.state_home.clear();
  EXPECT_THAT(find_queue_dir(paths)->unexpected, HasSubstr("HOME is not set"));
}

TEST_F(QueueDirectory, MadeWhenThereWasNoHomeItStaysAndSaysSoOnceThereIsOne) {
  const std::string home = std::exchange(paths.state_home, "");
  const QueueDir dir = open_queue_dir(paths);
  { std::ofstream(dir.path + "/queue.db"); }
  paths.state_home = home;
  EXPECT_EQ(find_queue_dir(paths)->path, dir.path);
  EXPECT_THAT(find_queue_dir(paths)->unexpected, HasSubstr("when there was no home that could be written, and stays there"));
  EXPECT_THAT(find_queue_dir(paths)->cautions, ElementsAre(HasSubstr(dir.path)));
}

TEST_F(QueueDirectory, OfAnEarlierHostNameIsFound) {
  const auto make = [&] {
    const std::string path = open_queue_dir(paths).path;
    { std::ofstream(path + "/queue.db"); }
    return path;
  };
  const std::string before = make();
  EXPECT_THAT(other_queues(paths), IsEmpty());
  paths.machine = "machine-x";
  EXPECT_THAT(other_queues(paths), IsEmpty()) << "another machine's";
  make();
  paths.machine.clear();
  paths.host = "renamed";
  EXPECT_THAT(other_queues(paths), ElementsAre(before));
  const std::string home = paths.state_home;
  paths.state_home.clear();
  make();
  paths.state_home = home;
  const std::string now = make();
  EXPECT_THAT(other_queues(paths), ElementsAre(before));
}

TEST_F(QueueDirectory, IsOneForEachHostAndEachSimulatedMachine) {
  const std::string here = open_queue_dir(paths).path;
  paths.machine = "dgx/h100";
  EXPECT_EQ(open_queue_dir(paths).path, here + "+dgx_h100");
  paths.host = "other";
  EXPECT_NE(open_queue_dir(paths).path, here);
}

TEST_F(QueueDirectory, ThatIsNamedIsTaken) {
  paths.named = root + "/mine";
  EXPECT_EQ(open_queue_dir(paths).path, root + "/mine");
  paths.named = root + "/nfs/mine";
  EXPECT_THAT(refusal(), HasSubstr("a queue needs a local disk"));
}

// Whoever may rename a directory above it could put one of his own there, with jobs in it.
TEST_F(QueueDirectory, BelowWhatOthersMayWriteIsRefused) {
  paths.named = root + "/project/mine";
  open_queue_dir(paths);
  const std::string above = root + "/project";
  ASSERT_EQ(::chmod(above.c_str(), 0757), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("others can put another directory"), HasSubstr("chmod o-w " + above)));
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "") << "as in /tmp, only its owner renames it";
  if (::chown(above.c_str(), static_cast<uid_t>(-1), 54321) != 0) GTEST_SKIP() << "only root may give it to a group of others";
  ASSERT_EQ(::chmod(above.c_str(), 02775), 0);
  EXPECT_THAT(refusal(), HasSubstr("chmod g-w " + above));
  ASSERT_EQ(::chmod(above.c_str(), 0755), 0);
  EXPECT_EQ(refusal(), "");
  std::filesystem::create_directory(root + "/elsewhere");
  std::filesystem::create_directory_symlink(root + "/project", root + "/elsewhere/link");
  paths.named = root + "/elsewhere/link/mine";
  EXPECT_EQ(refusal(), "");
  ASSERT_EQ(::chmod((root + "/elsewhere").c_str(), 0757), 0);
  EXPECT_THAT(refusal(), HasSubstr(root + "/elsewhere")) << "a link may be exchanged";
  ASSERT_EQ(::chmod((root + "/elsewhere").c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "");
  ASSERT_EQ(::lchown((root + "/elsewhere/link").c_str(), 54321, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(refusal(), HasSubstr(root + "/elsewhere/link")) << "a link in /tmp is its owner's";
  paths.named = root + "/project/mine";
  ASSERT_EQ(::chown(above.c_str(), 54321, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(refusal(), HasSubstr("others can put another directory")) << "its owner may always";
}

// Its mode looks as if only its owner's own group could write.
TEST_F(QueueDirectory, BelowWhatAnAccessListOpensIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root's group is known here";
  paths.named = root + "/project/mine";
  open_queue_dir(paths);
  const std::string above = root + "/project";
  ASSERT_EQ(::chmod(above.c_str(), 0775), 0);
  EXPECT_EQ(refusal(), "") << "a group of one's own";
  struct Entry {
    std::uint16_t tag, may;
    std::uint32_t who;
  };
  const struct {
    std::uint32_t version = 2;
    // acl(5): u::rwx, u:54321:rwx, g::r-x, m::rwx, o::r-x
    Entry entries[5] = {{1, 7, ~0U}, {2, 7, 54321}, {4, 5, ~0U}, {16, 7, ~0U}, {32, 5, ~0U}};
  } list;
  if (::setxattr(above.c_str(), "system.posix_acl_access", &list, sizeof list, 0) != 0)
    GTEST_SKIP() << "no access lists on this file system: " << std::strerror(errno);
  EXPECT_THAT(refusal(), HasSubstr("chmod g-w " + above));
}

TEST_F(QueueDirectory, InMemoryIsUsedWithACaution) {
  paths.named = root + "/ram";
  EXPECT_THAT(open_queue_dir(paths).cautions, ElementsAre(HasSubstr("gone after a reboot")));
}

TEST_F(QueueDirectory, ThatOthersCanLookIntoIsRefused) {
  paths.state_home.clear();
  std::filesystem::create_directory(root + "/tmp/thole-" + user);
  ::chmod((root + "/tmp/thole-" + user).c_str(), 0755);
  EXPECT_THAT(refusal(), HasSubstr("chmod 700"));
}

TEST_F(QueueDirectory, BehindALinkIsNotUsed) {
  paths.state_home.clear();
  std::filesystem::create_directory_symlink(root, root + "/tmp/thole-" + user);
  EXPECT_THAT(open_queue_dir(paths).path, MatchesRegex(root + "/tmp/thole-" + user + "-[0-9a-f]{8}/queue/box"));
}

// Planted before the user's first job, with or without a file that looks like a queue.
TEST_F(QueueDirectory, OfSomebodyElseIsNotLookedInto) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  const std::string planted = root + "/tmp/thole-" + user;
  std::filesystem::create_directories(planted + "/queue/box");
  { std::ofstream(planted + "/queue/box/queue.db"); }
  for (const char* below : {"", "/queue", "/queue/box", "/queue/box/queue.db"})
    ASSERT_EQ(::chown((planted + below).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(find_queue_dir(paths));
  EXPECT_EQ(open_queue_dir(paths).path, root + "/home/thole/queue/box") << "a home that is fine is used";
  paths.state_home.clear();
  const std::string made = open_queue_dir(paths).path;
  EXPECT_THAT(made, MatchesRegex(planted + "-[0-9a-f]{8}/queue/box"));
  { std::ofstream(made + "/queue.db"); }
  EXPECT_EQ(find_queue_dir(paths)->path, made);
  paths.named = planted + "/queue/box";
  EXPECT_THAT(refusal(), HasSubstr("belongs to somebody else")) << "what was named is not passed over in silence";
}

TEST_F(QueueDirectory, IsNotMadeByLooking) {
  EXPECT_FALSE(find_queue_dir(paths));
  EXPECT_FALSE(std::filesystem::exists(root + "/home"));
}

TEST_F(QueueDirectory, OnADiskThatFillsNoRoleIsSaidSo) {
  paths.state_home = root + "/nfs/home";
  paths.temporary = root + "/nfs/tmp";
  EXPECT_THAT(refusal(), HasSubstr("no local disk was found"));
}

TEST(DiskOf, KnowsTheNearestDirectoryThatExists) {
  EXPECT_EQ(disk_of("/proc/does/not/exist"), Disk::foreign);
  EXPECT_EQ(disk_of("/does/not/exist"), disk_of("/"));
}

}  // namespace thole::host
