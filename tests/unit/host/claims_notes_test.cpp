// Notes: who can say what of whose claim, and for how long. What is tried here by other users needs root.
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "host/claims/notes.hpp"
#include "host/claims/own_files.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

constexpr std::uint64_t here = 7;

Note note_of(std::vector<unsigned> slots, const std::string& id = "0123456789abcdef") {
  Note note;
  note.id = id;
  note.process = own_identity();
  for (unsigned slot : slots) note.put(slot, 0, {.inode = 4711});
  return note;
}

Note share_of(unsigned slot, unsigned berth, std::uint64_t memory_mib, bool with_any = true) {
  Note note = note_of({});
  note.shared = true;
  note.share_with_any = with_any;
  note.memory_mib = memory_mib;
  note.put(slot, berth + 1, {.inode = 4711});
  return note;
}

struct Notes : ::testing::Test {
  Fd directory() {
    if (::mkdir(path.c_str(), 0700) == 0) ::chmod(path.c_str(), 01777);
    return open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY);
  }
  NoteBook read() {
    NoteBook book(directory(), here);
    book.collect();
    book.read(keys);
    return book;
  }
  Fd put(const Note& note, int above = -1) { return OwnNotes(dir_.get(), ::geteuid(), here).put(note, keys, above); }
  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
    return names;
  }
  // Another user, who does something, says 'd', and stays until he is told to go.
  std::unique_ptr<Child> user(uid_t uid, const std::function<bool()>& body) {
    return std::make_unique<Child>([=](Child& self) {
      become(uid);
      self.say(body() ? 'd' : 'n');
      self.hear();
      return 0;
    });
  }

  TemporaryFolder folder;
  std::string path = folder.path + "/notes";
  SlotKeys keys{"GPU-0", "GPU-1", "GPU-2"};
  Fd dir_ = directory();
};

TEST_F(Notes, ANoteIsReadWhileItsDescriptorIsOpenAndNoLonger) {
  Fd live = put(note_of({0, 2}));
  ASSERT_TRUE(live);
  ASSERT_EQ(read().live().size(), 1u);
  EXPECT_TRUE(read().live()[0].names(2, 0) && !read().live()[0].names(1));
  EXPECT_EQ(read().live()[0].process.uid, ::geteuid());
  live.reset();
  EXPECT_TRUE(read().live().empty());
  EXPECT_EQ(files().size(), 1u) << "the file is kept for the next claim";
  live = put(note_of({1}));
  EXPECT_EQ(files().size(), 1u);
  ASSERT_EQ(read().live().size(), 1u);
  EXPECT_TRUE(read().live()[0].names(1)) << "and the old record says nothing more";
}

TEST_F(Notes, OldRecordsStayDeadWhileOneIsTakenAndNotYetWritten) {
  put(note_of({0}));
  Fd file = open_at(dir_.get(), files()[0].c_str(), O_RDWR);
  struct flock taken {};
  taken.l_type = F_WRLCK;
  taken.l_start = 1;
  taken.l_len = 1;
  ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &taken), 0);
  EXPECT_TRUE(read().live().empty());
  Fd other = put(note_of({1}));
  ASSERT_EQ(read().live().size(), 1u) << "who comes meanwhile takes another record";
  EXPECT_TRUE(read().live()[0].names(1));
}

TEST_F(Notes, ManyClaimsShareAFileAndAFullFileIsFollowedByAnother) {
  std::vector<Fd> live;
  rlimit limit;
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const unsigned many = 515;
  if (limit.rlim_cur < many + 50) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, many + 50);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < many + 50) GTEST_SKIP() << "too few descriptors allowed";
  }
  OwnNotes mine(dir_.get(), ::geteuid(), here);
  for (unsigned i = 0; i < many; ++i) {
    live.push_back(mine.put(note_of({i % 3}), keys, -1));
    ASSERT_TRUE(live.back()) << i;
  }
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(read().live().size(), many);
  live.erase(live.begin(), live.begin() + 100);
  EXPECT_EQ(read().live().size(), many - 100);
}

// As with a group that came since.
TEST_F(Notes, ANoteIsChangedAlsoWhereItsDirectoryIsClosedToItsUserByNow) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: a process of another user";
  ASSERT_EQ(::chmod(folder.path.c_str(), 0755), 0);
  const WallTime end{Millis{4'102'444'800'000}};
  Child claimant([&](Child& self) {
    become(1);
    OwnNotes mine(dir_.get(), 1, here);
    const Note note = note_of({0});
    const Fd kept = mine.put(note, keys, -1);
    self.say(kept ? 'p' : 'n'), self.hear();
    self.say(mine.change(note.id, keys, [&](Note& changed) { changed.until = end; }) ? 'c' : 'n');
    self.hear();
    return 0;
  });
  ASSERT_EQ(claimant.hear(), 'p');
  ASSERT_EQ(::chmod(path.c_str(), 01770), 0);
  claimant.say('!');
  EXPECT_EQ(claimant.hear(), 'c');
  const NoteBook book = read();
  ASSERT_EQ(book.live().size(), 1u);
  EXPECT_EQ(book.live()[0].until, end);
}

TEST_F(Notes, TheDescriptorIsNumberedAboveTheOthers) {
  Fd high(::fcntl(dir_.get(), F_DUPFD_CLOEXEC, 200));
  Fd live = put(note_of({0}), high.get());
  EXPECT_GT(live.get(), high.get());
  EXPECT_NE(::fcntl(live.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Notes, AReadLockOfAnybodyCostsANewFileAndNothingElse) {
  put(note_of({0}));
  Fd stranger = open_at(dir_.get(), files()[0].c_str(), O_RDONLY);
  struct flock all {};
  all.l_type = F_RDLCK;
  ASSERT_EQ(::fcntl(stranger.get(), F_OFD_SETLK, &all), 0);
  EXPECT_TRUE(read().live().empty()) << "a read lock makes nothing live";
  Fd live = put(note_of({1}));
  ASSERT_TRUE(live);
  ASSERT_EQ(read().live().size(), 1u);
  EXPECT_EQ(files().size(), 1u) << "what is of no use any more goes";
  stranger = open_at(dir_.get(), files()[0].c_str(), O_RDONLY);
  all.l_start = 2;
  ASSERT_EQ(::fcntl(stranger.get(), F_OFD_SETLK, &all), 0);
  Fd another = put(note_of({2}));
  ASSERT_TRUE(another);
  EXPECT_EQ(read().live().size(), 2u) << "but for a file that says something";
  EXPECT_EQ(files().size(), 2u);
  for (const std::string& name : files()) {
    struct stat file;
    ASSERT_EQ(::stat((path + "/" + name).c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 01644u) << "open to readers once it is live";
  }
}

TEST_F(Notes, WhatIsPlantedIsNone) {
  const std::string mine = path + "/" + std::to_string(::geteuid()) + "-";
  ::mkfifo((mine + "0000000a").c_str(), 0644);
  std::filesystem::create_symlink("/etc/passwd", mine + "0000000b");
  ::mkdir((mine + "0000000c").c_str(), 0755);
  std::ofstream(mine + "0000000d") << std::string(4096, 'x');
  ::chmod((mine + "0000000d").c_str(), 0666);
  Fd live = put(note_of({0}));
  ASSERT_TRUE(live);
  EXPECT_EQ(read().live().size(), 1u);
  std::ifstream file(mine + "0000000d");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), std::string(4096, 'x')) << "nor is it written to";
}

TEST_F(Notes, AFileOfMineThatSomebodyLinkedHereIsNotWrittenToAndALinkToANoteChangesNothing) {
  const std::string own = folder.path + "/thesis";
  std::ofstream(own) << std::string(2048, 'x');
  ::chmod(own.c_str(), 0644);
  std::filesystem::create_hard_link(own, path + "/" + std::to_string(::geteuid()) + "-0000000a");
  Fd live = put(share_of(0, 3, 1000));
  ASSERT_TRUE(live);
  std::ifstream file(own);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), std::string(2048, 'x'));
  for (const std::string& name : files())
    if (!name.ends_with("0000000a")) std::filesystem::create_hard_link(path + "/" + name, path + "/1-00000000");
  EXPECT_EQ(read().live().size(), 1u);
  EXPECT_TRUE(read().believed(0, 4, ::geteuid()));
}

TEST_F(Notes, OnlyItsOwnerMakesANoteLive) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  auto first = user(anna, [&] { return !!put(note_of({0})).get(); });
  ASSERT_EQ(first->hear(), 'd');
  auto second = user(bert, [&] {
    Fd file = open_at(dir_.get(), files()[0].c_str(), O_RDWR);
    if (file || errno != EACCES) return false;
    file = open_at(dir_.get(), files()[0].c_str(), O_RDONLY);
    struct flock live {};
    live.l_type = F_WRLCK;
    live.l_len = 1;
    if (::fcntl(file.get(), F_OFD_SETLK, &live) == 0 || errno != EBADF) return false;
    return ::unlinkat(dir_.get(), files()[0].c_str(), 0) != 0 && errno == EPERM;
  });
  EXPECT_EQ(second->hear(), 'd');
  EXPECT_TRUE(read().live().empty());
}

TEST_F(Notes, AStrangersWordForABerthCountsOnlyWhereItIsTheOnlyOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  Fd kept;   // in each child
  auto first = user(anna, [&] { return !!(kept = put(share_of(0, 3, 1000, false))); });
  ASSERT_EQ(first->hear(), 'd');
  ASSERT_TRUE(read().believed(0, 4, bert));
  EXPECT_EQ(read().believed(0, 4, bert)->memory_mib, 1000u);
  EXPECT_FALSE(read().believed(0, 5, bert)) << "of another berth it says nothing";
  auto second = user(bert, [&] { return !!(kept = put(share_of(0, 3, 1))); });
  ASSERT_EQ(second->hear(), 'd');
  EXPECT_FALSE(read().believed(0, 4, 60003)) << "two say that it is theirs: nobody is believed";
  EXPECT_EQ(read().naming(0, 4).size(), 2u);
  EXPECT_EQ(read().believed(0, 4, anna)->memory_mib, 1000u) << "my own word goes before a stranger's";
}

TEST_F(Notes, WhoHasMoreFilesThanAreReadMakesEveryOtherWordDoubtful) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  Fd kept;
  auto first = user(anna, [&] { return !!(kept = put(share_of(0, 3, 1000))); });
  ASSERT_EQ(first->hear(), 'd');
  auto second = user(bert, [&] {
    for (unsigned i = 0; i < 20; ++i) std::ofstream(path + "/60002-" + std::to_string(i)) << std::string(512, 'x');
    return true;
  });
  ASSERT_EQ(second->hear(), 'd');
  EXPECT_TRUE(read().believed(0, 4, 60003)) << "files that say nothing are no notes";
  std::vector<Fd> live;
  auto third = user(bert, [&] {
    for (unsigned i = 0; i < 20; ++i) {
      live.push_back(open_at(dir_.get(), ("60002-" + std::to_string(i)).c_str(), O_RDWR));
      if (!lock(live.back().get(), 0)) return false;
    }
    return true;
  });
  ASSERT_EQ(third->hear(), 'd');
  EXPECT_FALSE(read().believed(0, 4, 60003)) << "the note that is not read could name the berth too";
  EXPECT_TRUE(read().believed(0, 4, anna));
}

TEST_F(Notes, WhoComesBehindACrowdIsNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  constexpr uid_t first = 60010, last = first + 16;
  std::vector<std::unique_ptr<Child>> users;
  for (uid_t uid = first; uid <= last; ++uid) {
    std::vector<Fd> live;
    users.push_back(user(uid, [&, uid] {
      for (unsigned i = 0; i < (uid == last ? 1 : files_of_a_stranger); ++i) {
        const std::string name = path + "/" + std::to_string(uid) + "-" + std::to_string(i);
        std::ofstream(name) << std::string(512, 'x');
        live.push_back(open_at(AT_FDCWD, name.c_str(), O_RDWR));
        if (!lock(live.back().get(), 0)) return false;
      }
      return true;
    }));
    ASSERT_EQ(users.back()->hear(), 'd');
  }
  const NoteBook book = read();
  EXPECT_TRUE(book.unread().contains(last)) << "no more files than so many are open at once";
}

TEST_F(Notes, TheKernelsWordForTheHolderGoesBeforeAnyNote) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  Fd kept;
  auto first = user(anna, [&] { return !!(kept = put(note_of({0}))); });
  auto second = user(bert, [&] {
    Note forged = note_of({0});
    forged.process.pid = static_cast<std::uint32_t>(first->pid());    // and start time: everybody can read it
    forged.process.start = process_state(first->pid())->start;
    return !!(kept = put(forged));
  });
  ASSERT_EQ(first->hear(), 'd');
  ASSERT_EQ(second->hear(), 'd');
  const NoteBook book = read();
  const Note* his = names_holder(book, 0, 0, taker_among({first->pid()}));
  ASSERT_TRUE(his);
  EXPECT_EQ(his->process.uid, anna);
  EXPECT_FALSE(names_holder(book, 0, 0, taker_among({::getpid()}))) << "the holder made no note: nobody is named";
  EXPECT_FALSE(is_certainly_of(book, 0, 0, taker_among({first->pid()}))) << "another says the same number";
  EXPECT_FALSE(names_holder(book, 0, 0, Taker{})) << "the kernel names nobody and two do: neither is";
  first->kill(SIGKILL);
  first->wait();
  const NoteBook later = read();
  ASSERT_TRUE(names_holder(later, 0, 0, Taker{}));
  EXPECT_EQ(names_holder(later, 0, 0, Taker{})->process.uid, bert) << "only one is left";
}

// The kernel's number is one of this pid namespace.
TEST(NotesOfOthers, OneOfAnotherNamespaceMayBeOfAnyNumber) {
  Note one, other;
  one.process.uid = 1000;
  other.process.uid = 1001;
  other.process.pid = 12;
  const std::vector<const Note*> both{&one, &other};
  EXPECT_EQ(another_of_the_same_number(both, 1000, 12), &other);
  EXPECT_FALSE(another_of_the_same_number(both, 1000, 13));
  EXPECT_FALSE(another_of_the_same_number(both, 1001, 12)) << "his own";
  other.process.pid_namespace = own_pid_namespace();
  EXPECT_FALSE(another_of_the_same_number(both, 1000, 13));
  other.process.pid_namespace ^= 1;
  EXPECT_EQ(another_of_the_same_number(both, 1000, 13), &other);
}

// Its order at death is part of the proof: a claim's note never outlives a lock of a unit.
TEST_F(Notes, HoweverAClaimantDiesNoNoteIsLiveWhoseUnitIsFree) {
  const char* asked = std::getenv("THOLE_TEST_KILLS");
  const unsigned kills = asked ? static_cast<unsigned>(std::atoi(asked)) : 60;
  const std::string state = folder.path + "/state";
  ClaimStoreOptions options;
  options.location = StateLocation::named(state);
  options.units = {"GPU-0"};
  auto store = open_claim_store(options);
  Fd notes = open_at(AT_FDCWD, (state + "/notes").c_str(), O_RDONLY | O_DIRECTORY);
  for (unsigned i = 0; i < kills; ++i) {
    Child owner([&](Child& self) {
      auto own = open_claim_store(options);
      auto claim = try_claim(*own, entry({"GPU-0"}));
      self.say(claim ? 'c' : 'n');
      if (i % 3 == 2) {
        if (self.hear() == 'x') ::close_range(3, ~0u, 0);
        ::pause();
      } else {
        self.hear();                                           // then it ends by itself
        if (i % 3 == 1) claim.reset();
      }
      return 0;
    });
    ASSERT_EQ(owner.hear(), 'c');
    const std::string name = std::filesystem::directory_iterator(state + "/notes")->path();
    Fd note = open_at(AT_FDCWD, name.c_str(), O_RDONLY),
       unit = open_at(AT_FDCWD, (state + "/gpu.GPU-0").c_str(), O_RDWR | O_NONBLOCK);
    const auto kept_live = [&] {
      struct flock live {};
      live.l_type = F_RDLCK;
      live.l_len = 1;
      EXPECT_EQ(::fcntl(note.get(), F_OFD_GETLK, &live), 0);
      return live.l_type == F_WRLCK;
    };
    ASSERT_TRUE(kept_live()) << "while it holds, its note is live";
    if (i % 3 == 0) owner.kill(SIGKILL);
    else owner.say('x');
    while (::flock(unit.get(), LOCK_EX | LOCK_NB) != 0) {}     // the very moment counts: no sleep here
    ASSERT_FALSE(kept_live()) << "end " << i;
  }
}

}  // namespace
}  // namespace thole::host::claim_tests
