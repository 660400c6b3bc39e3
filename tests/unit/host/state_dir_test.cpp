#include "host/state_dir.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/text.hpp"
#include "host/claims/announced.hpp"
#include "host/claims/guard.hpp"
#include "host/claims/layout.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct StateDirTest : ::testing::Test {
  TemporaryFolder folder;
  StatePaths paths{folder.path + "/run", {folder.path + "/lock", folder.path + "/tmp"}, static_cast<uid_t>(-2)};
  StateDir open() { return open_state_dir(StateLocation::common(paths)); }
};

TEST_F(StateDirTest, TheFirstFallbackIsMadeWhateverTheUmask) {
  mode_t before = ::umask(077);
  StateDir dir = open();
  ::umask(before);
  EXPECT_EQ(dir.path, paths.fallbacks[0]);
  EXPECT_EQ(dir.kind, DirKind::fallback);
  struct stat made;
  ASSERT_EQ(::stat(dir.path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0755u);
  ASSERT_FALSE(dir.cautions.empty());
  EXPECT_NE(dir.cautions[0].find("friendly users"), std::string::npos);
}

TEST_F(StateDirTest, AFallbackThatExistsWinsOverABetterOneThatCouldBeMade) {
  std::filesystem::create_directory(paths.fallbacks[1]);
  EXPECT_EQ(open().path, paths.fallbacks[1]);
}

TEST_F(StateDirTest, AFallbackIsGivenUpAsSoonAsABetterDirectoryExists) {
  StateDir dir = open();
  EXPECT_TRUE(dir.current());
  std::filesystem::create_directory(paths.system);
  EXPECT_TRUE(dir.current()) << "nobody can claim in one that is not complete";
  std::ofstream(paths.system + "/queue");
  EXPECT_FALSE(dir.current());
}

TEST_F(StateDirTest, ADirectoryThatWasReplacedIsNotCurrent) {
  StateDir dir = open();
  std::filesystem::rename(dir.path, dir.path + ".old");
  EXPECT_FALSE(dir.current());
  std::filesystem::create_directory(dir.path);
  EXPECT_FALSE(dir.current());
}

TEST_F(StateDirTest, APlantedLinkIsRefusedNotFollowed) {
  std::filesystem::create_directory(folder.path + "/elsewhere");
  std::filesystem::create_directory_symlink(folder.path + "/elsewhere", paths.fallbacks[0]);
  EXPECT_NE(trouble([&] { open(); }).find("link"), std::string::npos);
}

TEST_F(StateDirTest, AFileInItsPlaceIsRefused) {
  std::ofstream(paths.fallbacks[0]) << "x";
  EXPECT_NE(trouble([&] { open(); }).find(paths.fallbacks[0]), std::string::npos);
}

TEST_F(StateDirTest, ASystemDirectoryOfAnotherOwnerIsRefused) {
  std::filesystem::create_directory(paths.system);
  std::string message = trouble([&] { open(); });
  EXPECT_NE(message.find("root"), std::string::npos);
  EXPECT_NE(message.find("thole init"), std::string::npos);
}

TEST_F(StateDirTest, ADirectoryThatEverybodyCanWriteToIsRefused) {
  std::filesystem::create_directory(folder.path + "/open");
  ::chmod((folder.path + "/open").c_str(), 0777);
  EXPECT_NE(trouble([&] { open_state_dir(StateLocation::named(folder.path + "/open")); }).find("chmod"), std::string::npos);
}

TEST_F(StateDirTest, ANamedDirectoryIsMadeWithItsParents) {
  StateDir dir = open_state_dir(StateLocation::named(folder.path + "/a/b/c/"));
  EXPECT_EQ(dir.path, folder.path + "/a/b/c");
  EXPECT_TRUE(dir.mine);
}

TEST_F(StateDirTest, APersonalDirectoryMustBeMineAlone) {
  StateDir dir = open_state_dir(StateLocation::personal(folder.path + "/own", "machine"));
  EXPECT_EQ(dir.kind, DirKind::personal);
  ::chmod(dir.path.c_str(), 0750);
  EXPECT_NE(trouble([&] { open_state_dir(StateLocation::personal(folder.path + "/own", "machine")); }).find("0700"),
            std::string::npos);
}

// Whoever begins by then has another directory: a link is nobody's own.
TEST_F(StateDirTest, APersonalDirectoryThatIsReachedByALinkIsNotCurrent) {
  const std::string own = folder.path + "/own", away = folder.path + "/away";
  const StateDir dir = open_state_dir(StateLocation::personal(own, "machine"));
  EXPECT_TRUE(dir.current());
  std::filesystem::rename(own, away);
  std::filesystem::create_symlink(away, own);
  EXPECT_FALSE(dir.current());
}

TEST_F(StateDirTest, LookingMakesNothing) {
  EXPECT_FALSE(find_state_dir(StateLocation::common(paths)));
  EXPECT_FALSE(find_state_dir(StateLocation::named(folder.path + "/none")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST_F(StateDirTest, OneOfTheSystemThatWasDeletedGivesWayToNoFallback) {
  paths.system_owner = ::geteuid();
  make_system_dir(paths);
  std::ofstream(paths.system + "/queue");
  EXPECT_EQ(open().kind, DirKind::system);
  EXPECT_FALSE(was_complete(paths));
  std::ofstream(lock_of(paths)) << "it was complete";
  EXPECT_TRUE(was_complete(paths));
  std::filesystem::remove(paths.system + "/queue");
  EXPECT_NE(trouble([&] { open(); }).find("deleted"), std::string::npos);
  std::filesystem::remove_all(paths.system);
  EXPECT_NE(trouble([&] { open(); }).find("thole init"), std::string::npos);
}

// Also where it is completed in the middle of a look.
TEST_F(StateDirTest, NoLookTakesAFallbackForCurrentWhileTheSystemsIsCompletedOrAfterwards) {
  paths.system_owner = ::geteuid();
  const StateDir fallback = open(), system = make_system_dir(paths);
  const NodeMaker maker(system.fd.get(), system.path, {});
  std::atomic<unsigned> begun{0}, over{0};
  std::atomic<bool> end{false};
  std::thread init([&] {
    while (!end) {
      Fd completing = announce(system.fd.get(), maker, completing_file);
      ++begun;
      std::ofstream(paths.system + "/queue");
      completing.reset();
      ++over;
      std::filesystem::remove(paths.system + "/queue");
    }
  });
  unsigned wrong = 0;
  for (unsigned looks = 0; looks < 5'000;) {         // from beginning to end in one such time
    const unsigned time = begun;
    if (time == over) continue;
    const bool current = fallback.current();
    if (over != time - 1) continue;
    ++looks;
    wrong += current;
  }
  end = true;
  init.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(StateDirTest, AClaimOfTheSystemsDirectoryLocksNoneOfItsParts) {
  paths.system_owner = ::geteuid();
  EXPECT_TRUE(make_system_dir(paths).lock_for_claim().empty());
}

TEST_F(StateDirTest, AnExclusiveLockOfTheDirectoryStopsNoClaim) {
  StateDir dir = open();
  Fd stranger = open_at(AT_FDCWD, dir.path.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(stranger.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(dir.lock_for_claim().size(), 1u) << "the byte of the parent";
}

TEST_F(StateDirTest, OneDeletedUnderALivingClaimIsNotMadeAnew) {
  StateDir dir = open();
  auto claim = dir.lock_for_claim();
  std::filesystem::remove_all(dir.path);
  EXPECT_NE(trouble([&] { open(); }).find("deleted"), std::string::npos);
  claim.clear();
  EXPECT_EQ(open().path, paths.fallbacks[0]);
}

TEST_F(StateDirTest, OneWhoseParentWasMovedUnderALivingClaimIsNotMadeAnew) {
  const StateLocation location = StateLocation::named(folder.path + "/up/state");
  auto claim = open_state_dir(location).lock_for_claim();
  std::filesystem::rename(folder.path + "/up", folder.path + "/aside");
  EXPECT_NE(trouble([&] { open_state_dir(location); }).find("deleted"), std::string::npos);
  claim.clear();
  EXPECT_TRUE(open_state_dir(location).current());
}

// Two who come first at the same time: one has found no directory, the other makes it and claims in it before the first goes
// on.
TEST_F(StateDirTest, OneThatAnotherMakesAndClaimsInMeanwhileWasNotDeleted) {
  for (StateLocation location : {StateLocation::common(paths), StateLocation::named(folder.path + "/named"),
                                 StateLocation::personal(folder.path + "/own", "inside")}) {
    std::vector<StateDir> others;
    std::vector<std::vector<Fd>> claims;
    StateLocation watched = location;
    watched.step_hook = [&](const char* step) {
      if (std::string_view(step) != "absent" || !others.empty()) return;
      others.push_back(open_state_dir(location));
      claims.push_back(others.back().lock_for_claim());
    };
    const StateDir mine = open_state_dir(watched);
    EXPECT_EQ(mine.path, others.at(0).path);
    EXPECT_FALSE(claims.at(0).empty());
    EXPECT_TRUE(others.at(0).current());
  }
}

// The same for one who only looks: he has found no directory, or an unfinished one.
TEST_F(StateDirTest, WhoLooksWhileAnotherMakesItAndClaimsInItFindsIt) {
  for (const std::string step_of_other : {"absent", "kept"}) {
    ClaimStoreOptions options;
    options.location = StateLocation::named(folder.path + "/made-at-" + step_of_other);
    options.units = {"GPU-a"};
    std::vector<Fd> claim;
    std::unique_ptr<port::ClaimStore> other;
    if (step_of_other == "kept") claim = open_state_dir(options.location).lock_for_claim();   // and unfinished
    ClaimStoreOptions watched = options;
    watched.location.step_hook = [&](const char* step) {
      if (step != step_of_other || other) return;
      claim.clear();
      other = open_claim_store(options);
      claim = find_state_dir(options.location)->lock_for_claim();
    };
    EXPECT_TRUE(find_claim_store(watched)) << step_of_other;
    EXPECT_FALSE(claim.empty());
  }
}

TEST_F(StateDirTest, OneThatWasEmptiedUnderAClaimIsRefusedToWhoLooks) {
  ClaimStoreOptions options;
  options.location = StateLocation::named(folder.path + "/named");
  options.units = {"GPU-a"};
  open_claim_store(options);
  const std::vector<Fd> claim = find_state_dir(options.location)->lock_for_claim();
  for (const auto& entry : std::filesystem::directory_iterator(folder.path + "/named"))
    std::filesystem::remove_all(entry.path());
  EXPECT_NE(trouble([&] { find_claim_store(options); }).find("emptied"), std::string::npos);
}

// He holds the byte, looks whether the directory is still the one he opened, and it is not: it was swept just before.
TEST_F(StateDirTest, WhoseDirectoryWasSweptBeforeHeClaimedHoldsUpTheNextOneOnlyUntilHeNotices) {
  StateLocation location = StateLocation::personal(folder.path + "/own", "inside");
  StateDir swept = open_state_dir(location);
  std::filesystem::remove_all(swept.path);
  std::vector<Fd> claim = swept.lock_for_claim();
  ASSERT_FALSE(claim.empty());
  unsigned looks = 0;
  location.step_hook = [&](const char* step) {
    if (std::string_view(step) == "kept" && ++looks == 3 && !swept.current()) claim.clear();
  };
  EXPECT_TRUE(open_state_dir(location).current());
  EXPECT_EQ(looks, 3u);
}

TEST_F(StateDirTest, UnusedMeansThatNoClaimHoldsIt) {
  for (StateLocation location : {StateLocation::common(paths), StateLocation::personal(folder.path + "/own", "machine")}) {
    StateDir dir = open_state_dir(location);
    EXPECT_TRUE(dir.unused());
    auto claim = dir.lock_for_claim();
    EXPECT_FALSE(dir.unused()) << dir.path;
    claim.clear();
    EXPECT_TRUE(dir.unused());
  }
}

// The root is lost, and a stranger's file is in its place: the next one has another name, here and for who knew the lost one.
TEST_F(StateDirTest, ALostRootIsFollowedByOneInWhichNothingIsClaimedTwice) {
  const std::string plain = folder.path + "/thole-" + std::to_string(::geteuid());
  const StateLocation location = StateLocation::personal(plain, "machine");
  ASSERT_EQ(open_state_dir(location).path, plain + "/machine");
  Child holder([&](Child& self) {
    const StateDir dir = open_state_dir(location);
    const auto guard = dir.lock_for_claim();
    const bool made = ::mkfifoat(dir.fd.get(), "node", 0600) == 0 && ::fchmodat(dir.fd.get(), "node", S_ISVTX | 0600, 0) == 0;
    const Fd node = open_at(dir.fd.get(), "node", O_RDWR);
    self.say(made && !guard.empty() && ::flock(node.get(), LOCK_EX) == 0 ? 'h' : 'n');
    self.hear();
    return 0;
  });
  ASSERT_EQ(holder.hear(), 'h');
  std::filesystem::remove_all(plain);
  { std::ofstream strangers(plain); }
  const std::string pid = "pid " + std::to_string(holder.pid());
  for (int times = 0; times < 2; ++times) EXPECT_NE(trouble([&] { open_state_dir(location); }).find(pid), std::string::npos);
  EXPECT_NE(trouble([&] { refuse_if_lost(location); }).find(pid), std::string::npos);
  EXPECT_FALSE(find_state_dir(location));
  holder.say('!');
  EXPECT_EQ(holder.wait(), 0);
  const StateDir made = open_state_dir(location);
  EXPECT_TRUE(made.path.starts_with(plain + "-")) << made.path;
  EXPECT_EQ(find_state_dir(location)->path, made.path);
  std::filesystem::remove(plain);
  EXPECT_EQ(open_state_dir(location).path, made.path) << "and stays where it is when the name is given back";
}

// Who was found is asked first the next time; when he has ended another is looked for.
TEST_F(StateDirTest, AKeeperOfALostDirectoryIsFoundAsLongAsThereIsAny) {
  const std::string path = folder.path + "/up/state";
  std::filesystem::create_directory(folder.path + "/up");
  const auto keeper = [&](Child& self) {
    const StateDir dir = open_state_dir(StateLocation::named(path));
    const auto locks = dir.lock_for_claim();
    self.say('c');
    self.hear();
    return 0;
  };
  AnyKeeper anybody({guard_of(path)});
  EXPECT_FALSE(anybody.lives());
  Child one(keeper);
  ASSERT_EQ(one.hear(), 'c');
  Child two(keeper);
  ASSERT_EQ(two.hear(), 'c');
  std::filesystem::rename(folder.path + "/up", folder.path + "/aside");
  EXPECT_TRUE(anybody.lives());
  EXPECT_TRUE(anybody.lives());
  for (Child* child : {&one, &two}) {
    EXPECT_TRUE(anybody.lives());
    child->say('!');
    EXPECT_EQ(child->wait(), 0);
  }
  EXPECT_FALSE(anybody.lives());
}

// All names that it may have are one (own_directory.hpp), and what older versions keep is that of the name as it is.
TEST(GuardOfAPath, IsTheSameForEveryNumberOfAUsersDirectory) {
  const auto line = [](const Guard& guard) {
    return fmt::format("1: OFDLCK ADVISORY  READ -1 00:21:7 {} {}", guard.begin, guard.begin + guard.length - 1);
  };
  const Guard plain = guard_of("/tmp/thole-1000/machine"), one = guard_of("/tmp/thole-1000-0123abcd/machine"),
              other = guard_of("/tmp/thole-1000-00000000/machine");
  for (const Guard& guard : {plain, one, other})
    for (const Guard& kept : {plain, one, other}) EXPECT_TRUE(guard.is_in(line(kept)));
  for (const char* not_it : {"/tmp/thole-1000-0123abcd/machine2", "/tmp/thole-1001/machine", "/var/tmp/thole-1000/machine",
                             "/tmp/thole-1000-0123abcd-0123abcd/machine", "/tmp/thole-1000/mine/machine"})
    EXPECT_FALSE(plain.is_in(line(guard_of(not_it)))) << not_it;

  const Guard older{one.begin, one.length_as_written};
  EXPECT_TRUE(one.is_in(line(older)));
  EXPECT_FALSE(other.is_in(line(older)));
}

// Who keeps the byte alone claims nothing, nor does who has a locked FIFO that is no node: root sees the descriptors of all.
TEST_F(StateDirTest, AKeeperOfAPersonalDirectoryHasALockedNodeOfItsOwner) {
  const std::string path = folder.path + "/state";
  const Guard guard = guard_of(path);
  Child keeper([&](Child& self) {
    const Fd parent = open_at(AT_FDCWD, folder.path.c_str(), O_RDONLY | O_DIRECTORY);
    struct flock byte = guard.lock(F_RDLCK);
    const std::string pipe = folder.path + "/pipe";
    if (::fcntl(parent.get(), F_OFD_SETLK, &byte) != 0 || ::mkfifo(pipe.c_str(), 0600) != 0) return 1;
    self.say('b'), self.hear();
    const Fd fifo = open_at(AT_FDCWD, pipe.c_str(), O_RDWR);
    if (::flock(fifo.get(), LOCK_EX) != 0) return 1;
    self.say('p'), self.hear();
    if (::fchmod(fifo.get(), S_ISVTX | 0600) != 0) return 1;
    self.say('n'), self.hear();
    return 0;
  });
  const std::vector<pid_t> nobody, it{keeper.pid()};
  ASSERT_EQ(keeper.hear(), 'b');
  EXPECT_EQ(keepers_anywhere({guard}), it);
  EXPECT_EQ(keepers_anywhere({guard, ::geteuid()}), nobody);
  keeper.say('!');
  ASSERT_EQ(keeper.hear(), 'p');
  EXPECT_EQ(keepers_anywhere({guard, ::geteuid()}), nobody) << "a pipe, such as anybody may be handed";
  keeper.say('!');
  ASSERT_EQ(keeper.hear(), 'n');
  EXPECT_EQ(keepers_anywhere({guard, ::geteuid()}), it);
  EXPECT_EQ(keepers_anywhere({guard, ::geteuid() + 1}), nobody);
}

TEST(StateDirFilesystem, OnlyThoseWhoseLocksHoldAreUsed) {
  struct { unsigned long type; bool refused, caution; } table[] = {
      {TMPFS_MAGIC, false, false},       {EXT4_SUPER_MAGIC, false, false}, {0x58465342, false, false},
      {BTRFS_SUPER_MAGIC, false, false}, {OVERLAYFS_SUPER_MAGIC, false, true}, {NFS_SUPER_MAGIC, true, false},
      {0xff534d42, true, false},         {0x65735546, true, false},        {0x01161970, true, false}};   // CIFS, FUSE, GFS2
  for (auto row : table) {
    const char* caution = nullptr;
    EXPECT_EQ(refuse_filesystem(static_cast<long>(row.type), &caution) != nullptr, row.refused) << std::hex << row.type;
    EXPECT_EQ(caution != nullptr, row.caution) << std::hex << row.type;
  }
}

TEST(StateDirFilesystem, AKernelFileSystemIsRefusedInPractice) {
  std::string message = trouble([] { open_state_dir(StateLocation::named("/proc/sys")); });
  EXPECT_NE(message.find("tmpfs"), std::string::npos) << message;
}

}  // namespace
}  // namespace thole::host::claim_tests
