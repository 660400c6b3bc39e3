#include "host/own_directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"

using namespace thole;
using namespace thole::host;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

namespace {

namespace fs = std::filesystem;
constexpr uid_t somebody = 12345;

class OwnDirectory : public testing::Test {
 protected:
  OwnDirectory() {
    char name[] = "/tmp/thole-own-XXXXXX";
    base = ::mkdtemp(name);
    plain = base + "/thole-" + std::to_string(::geteuid());
  }
  ~OwnDirectory() override { fs::remove_all(base); }

  std::string open() { return open_own_directory(base, "name another"); }
  // What somebody else put under our name.
  void plant() {
    fs::create_directory(plain);
    if (::chown(plain.c_str(), somebody, somebody) != 0) throw std::runtime_error("chown");
  }

  std::string base, plain;
};

mode_t mode_of(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

}  // namespace

TEST_F(OwnDirectory, HasTheUsersNumberAndIsHisAlone) {
  EXPECT_FALSE(find_own_directory(base, ::geteuid()));
  EXPECT_EQ(open(), plain);
  EXPECT_EQ(mode_of(plain), 0700u);
  EXPECT_EQ(find_own_directory(base, ::geteuid()), plain);
  EXPECT_EQ(open(), plain);
  EXPECT_FALSE(find_own_directory(base, somebody));
}

TEST_F(OwnDirectory, GetsAnotherNameWhereSomebodyElseTookThisOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  plant();
  const std::string made = open();
  EXPECT_THAT(made, MatchesRegex(plain + "-[0-9a-f]{8}"));
  EXPECT_EQ(mode_of(made), 0700u);
  EXPECT_EQ(open(), made);
  fs::remove(plain);                             // the stranger gives the name back: ours is where it was
  EXPECT_EQ(open(), made);
  EXPECT_EQ(find_own_directory(base, ::geteuid()), made);
  EXPECT_THAT(own_directories(base, ::geteuid()), ElementsAre(made));
}

TEST_F(OwnDirectory, IsNeverALinkOrAFile) {
  fs::create_directory(base + "/elsewhere");
  fs::create_directory_symlink(base + "/elsewhere", plain);
  EXPECT_THAT(open(), MatchesRegex(plain + "-[0-9a-f]{8}"));
  EXPECT_TRUE(fs::is_empty(base + "/elsewhere"));
}

TEST_F(OwnDirectory, ThatIsOpenToOthersIsRefusedWithACureThatHelps) {
  fs::create_directory(plain);
  ::chmod(plain.c_str(), 0755);
  try {
    open();
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "chmod 700 " + plain);
  }
  ::chmod(plain.c_str(), 0700);
  EXPECT_EQ(open(), plain);
}

TEST_F(OwnDirectory, WithANumberThatIsOpenToOthersIsRefusedLikeOneWithout) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  plant();
  const std::string made = open();
  ::chmod(made.c_str(), 0755);
  for (const auto& look : std::vector<std::function<void()>>{[&] { open(); }, [&] { find_own_directory(base, ::geteuid()); }})
    try {
      look();
      ADD_FAILURE() << "another beside it";
    } catch (const Error& error) {
      EXPECT_EQ(error.hint(), "chmod 700 " + made);
    }
  ::chmod(made.c_str(), 0700);
  EXPECT_EQ(open(), made);
}

TEST_F(OwnDirectory, IsNotMadeWhereOneOfAnotherNameCouldNotBeSeen) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  plain = base + "/thole-" + std::to_string(somebody + 1);
  plant();
  ::chmod(base.c_str(), 01733);
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setresuid(somebody + 1, somebody + 1, somebody + 1) != 0) ::_exit(1);
    try {
      open();
    } catch (const Error& error) {
      ::_exit(error.sys_errno() == EACCES && error.object() == base ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = -1;
  ::waitpid(user, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(own_directories(base, somebody + 1), IsEmpty());
}

TEST_F(OwnDirectory, IsKnownByItsNameWithANumberAndWithout) {
  EXPECT_EQ(without_number("/tmp/thole-1000-0123abcd"), "/tmp/thole-1000");
  for (const char* other : {"/tmp/thole-1000", "/tmp/thole-1000-0123abc", "/tmp/thole-1000-0123ABCD", "/tmp/thole--0123abcd",
                            "/tmp/thole-mine-0123abcd", "/tmp/mine-1000-0123abcd", "/tmp/thole-1000-0123abcd/machine", "", "/"})
    EXPECT_EQ(without_number(other), other);
  EXPECT_EQ(base_of_own_directory("/tmp/thole-1000", 1000), "/tmp");
  EXPECT_EQ(base_of_own_directory("/var/tmp/thole-1000-0123abcd", 1000), "/var/tmp");
  EXPECT_FALSE(base_of_own_directory("/tmp/thole-1000-0123abcd", 100));
  EXPECT_FALSE(base_of_own_directory("/tmp/thole-own/0123abcd", 1000));
}

TEST_F(OwnDirectory, ThatADeadMakerLeftEmptyIsNobodys) {
  fs::create_directory(plain + "-00000001");
  ::chmod((plain + "-00000001").c_str(), 0700);
  EXPECT_FALSE(find_own_directory(base, ::geteuid()));
  EXPECT_EQ(open(), plain);
  EXPECT_THAT(own_directories(base, ::geteuid()), ElementsAre(plain));
}

TEST_F(OwnDirectory, OfALivingMakerIsNotTakenAway) {
  fs::create_directory(plain + "-00000001");
  ::chmod((plain + "-00000001").c_str(), 0700);
  Fd maker = open_at(AT_FDCWD, (plain + "-00000001").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(maker.get(), LOCK_EX), 0);
  std::string ours;
  std::thread other([&] { ours = open(); });
  { std::ofstream(plain + "-00000001/settled"); }  // he settles: whoever comes meets him there
  other.join();
  EXPECT_EQ(ours, plain + "-00000001");
}

TEST_F(OwnDirectory, WhoseMarkWasSweptAwayStaysWhileThereIsAnythingInIt) {
  open();
  fs::create_directory(plain + "/0123456789abcdef");
  fs::remove(plain + "/settled");
  EXPECT_EQ(open(), plain);
  EXPECT_TRUE(fs::exists(plain + "/0123456789abcdef"));
}

TEST_F(OwnDirectory, CannotBeMadeInAFolderThatIsNotThere) {
  fs::remove_all(base);
  try {
    open();
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_THAT(error.full(), HasSubstr("name another"));
  }
}

// A stranger takes the name and gives it back all the time; all processes of the user end up in one directory all the same.
TEST_F(OwnDirectory, IsOneForAllWhateverAStrangerDoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  ::chmod(base.c_str(), 01777);
  for (int round = 0; round < 20; ++round) {
    const pid_t stranger = ::fork();
    if (stranger == 0) {
      if (::setresuid(somebody, somebody, somebody) != 0) ::_exit(1);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);        // or it would outlive a maker that throws, and keep ctest waiting
      for (;;) {
        ::mkdir(plain.c_str(), 0755);
        ::rmdir(plain.c_str());
      }
    }
    std::vector<std::string> taken(6);
    std::vector<std::thread> makers;
    for (std::string& mine : taken) makers.emplace_back([&] { mine = open(); });
    for (std::thread& maker : makers) maker.join();
    ::kill(stranger, SIGKILL);
    ::waitpid(stranger, nullptr, 0);
    EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), 1u);
    for (const fs::directory_entry& entry : fs::directory_iterator(base)) fs::remove_all(entry.path());
  }
}

// What was ours is a stranger's a moment later, open as his are.
TEST_F(OwnDirectory, WhoseNameChangesHandsIsNotCalledOpenToOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else";
  ::chmod(base.c_str(), 01777);
  std::vector<pid_t> makers;
  for (const uid_t uid : {::geteuid(), somebody}) {
    makers.push_back(::fork());
    if (makers.back() != 0) continue;
    if (::setresuid(uid, uid, uid) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      ::mkdir(plain.c_str(), uid == somebody ? 0755 : 0700);
      ::rmdir(plain.c_str());
    }
  }
  for (int look = 0; look < 30'000; ++look) ASSERT_NO_THROW(find_own_directory(base, ::geteuid())) << look;
  for (const pid_t maker : makers) {
    ::kill(maker, SIGKILL);
    ::waitpid(maker, nullptr, 0);
  }
}

TEST_F(OwnDirectory, ThatIsNamedIsMadeAndChecked) {
  EXPECT_EQ(open_named_directory(base + "/mine", ""), base + "/mine");
  EXPECT_EQ(mode_of(base + "/mine"), 0700u);
  { std::ofstream(base + "/file"); }
  EXPECT_THROW(open_named_directory(base + "/file", ""), Error);
  ::chmod((base + "/mine").c_str(), 0750);
  EXPECT_THROW(open_named_directory(base + "/mine", ""), Error);
}
