// `thole init --take-back` beside long lists of locks and signals, on a node of the test's own.
#include "host/claims/take_back.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct TakingBack : testing::Test {
  TakingBack()
      : directory(open_at(AT_FDCWD, folder.path.c_str(), O_RDONLY | O_DIRECTORY)), maker(directory.get(), folder.path, {}) {
    maker.make_fifo("gpu.GPU-0");
  }

  // More locks than the kernel lists on some pages: with the least limit its list is not read to the end.
  void crowd() {
    for (int i = 0; i < 400; ++i) {
      kept.push_back(open_at(AT_FDCWD, folder.path.c_str(), O_RDWR | O_TMPFILE, 0600));
      ASSERT_EQ(::flock(kept.back().get(), LOCK_EX), 0);
    }
    ASSERT_FALSE(kernel_locks(least).whole);
  }
  Fd locked(int how = LOCK_EX) const {
    Fd node = open_at(directory.get(), "gpu.GPU-0", O_RDWR | O_NONBLOCK);
    EXPECT_EQ(::flock(node.get(), how | LOCK_NB), 0);
    return node;
  }
  bool take_back(std::vector<std::string>& said, std::chrono::nanoseconds limit = for_init_to_take) const {
    const LocksBefore before = locks_before(folder.path, limit);
    TakeBack asked(directory.get(), maker, units, before, limit);
    return asked.of(units[0], {{}, "", {}}, said);
  }
  bool is_marked() const {
    struct stat node;
    return ::fstatat(directory.get(), "gpu.GPU-0", &node, 0) == 0 && (node.st_mode & being_taken) != 0;
  }

  static constexpr std::chrono::nanoseconds least{1};
  TemporaryFolder folder;
  Fd directory;
  NodeMaker maker;
  std::vector<ToTakeBack> units{{"GPU-0", ""}};
  std::vector<Fd> kept;
};

// A name that is closed for a moment ends who opens it then, and for good where init is killed there.
TEST_F(TakingBack, ANodeThatIsMadeAnewIsAtNoMomentClosedToOthers) {
  const NodeMaker init_of(directory.get(), folder.path, {0666, std::nullopt});
  init_of.replace_fifo("gpu.GPU-0");
  std::atomic<bool> end{false};
  std::thread init([&] {
    for (int i = 0; i < 2'000; ++i) init_of.replace_fifo("gpu.GPU-0");
    end = true;
  });
  unsigned closed = 0;
  while (!end) {
    struct stat node;
    if (::fstatat(directory.get(), "gpu.GPU-0", &node, 0) != 0 || (node.st_mode & 0777) == 0) ++closed;
  }
  init.join();
  EXPECT_EQ(closed, 0u);
}

// Who had it before cannot be told then: so who has an account may have got it since.
TEST_F(TakingBack, WhereTheKernelsListIsTooLongWhoHasNoAccountLosesItAndNobodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of two users";
  constexpr uid_t without_account = 54321, with_account = 1;
  cpu_set_t before, one;                                     // the kernel lists the locks taken on each, the newest first
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  for (const uid_t user : {without_account, with_account}) {
    ::sched_setaffinity(0, sizeof one, &one);
    Child holder([&](Child& self) {
      const Fd node = locked();
      become(user);
      self.say('l'), self.hear();
      return 0;
    });
    ASSERT_EQ(holder.hear(), 'l');
    crowd();
    ::sched_setaffinity(0, sizeof before, &before);
    std::vector<std::string> said;
    EXPECT_EQ(take_back(said, least), user == without_account);
    ASSERT_FALSE(said.empty());
    const char* told = user == without_account ? "gpu.GPU-0 is taken back; " : "may have got it just now";
    EXPECT_NE(said[0].find(told), std::string::npos) << said[0];
    EXPECT_FALSE(is_marked());
  }
}

// Between the first list and the mark: also beside one who had it and has it still, where they share it.
TEST_F(TakingBack, WhoGetsItBeforeTheMarkKeepsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of two users";
  for (const bool beside : {false, true}) {
    Child first([&](Child& self) {
      const Fd node = locked(LOCK_SH);
      become(2);
      self.say('l'), self.hear();
      return 0;
    });
    ASSERT_EQ(first.hear(), 'l');
    const LocksBefore before = locks_before(folder.path);
    if (!beside) {
      first.say('!');
      ASSERT_EQ(first.wait(), 0);
    }
    Child second([&](Child& self) {
      const Fd node = locked(LOCK_SH);
      become(1);
      self.say('l'), self.hear();
      return 0;
    });
    ASSERT_EQ(second.hear(), 'l');
    TakeBack asked(directory.get(), maker, units, before);
    std::vector<std::string> said;
    EXPECT_FALSE(asked.of(units[0], {{}, "", {}}, said));
    ASSERT_EQ(said.size(), 1u);
    EXPECT_NE(said[0].find(fmt::format("pid {} ", second.pid())), std::string::npos) << said[0];
  }
}

TEST_F(TakingBack, RootsWordAgainTakesItAlsoFromWhoHasGotItJustNow) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: a process of another user";
  const LocksBefore before = locks_before(folder.path);
  Child second([&](Child& self) {
    const Fd node = locked();
    become(1);
    self.say('l'), self.hear();
    return 0;
  });
  ASSERT_EQ(second.hear(), 'l');
  std::vector<std::string> said;
  {
    TakeBack asked(directory.get(), maker, units, before);
    EXPECT_FALSE(asked.of(units[0], {{}, "", {}}, said));
    EXPECT_EQ(asked.spared_of("GPU-0"), std::vector<std::string>{"gpu.GPU-0"});
    EXPECT_NE(said.at(0).find("--force --take-back GPU-0"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find(fmt::format("kept by pid {} ", second.pid())), std::string::npos) << said[0];
  }
  TakeBack asked(directory.get(), maker, units, before);
  said.clear();
  EXPECT_TRUE(asked.of(units[0], {.group = {}, .lost = "", .inside = {}, .from_anybody = true}, said));
  EXPECT_NE(said.at(0).find("is taken back"), std::string::npos) << said[0];
  EXPECT_TRUE(asked.spared_of("GPU-0").empty());
}

TEST_F(TakingBack, WhereNobodyCanTellWhoHasItNothingIsTaken) {
  cpu_set_t before, one;                                     // the kernel lists the locks taken on each, the newest first
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ::sched_setaffinity(0, sizeof one, &one);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Fd here(ends[0]), there(ends[1]);
  {
    const Fd node = locked();                                // on its way to a process, no process has it
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))]{};
    char byte = 'x';
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1, message.msg_control = space, message.msg_controllen = sizeof space;
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET, part->cmsg_type = SCM_RIGHTS, part->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = node.get();
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    ASSERT_EQ(::sendmsg(here.get(), &message, 0), 1);
  }
  crowd();
  ::sched_setaffinity(0, sizeof before, &before);
  std::vector<std::string> said;
  EXPECT_FALSE(take_back(said, least));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("is not taken back: who has it cannot be told"), std::string::npos) << said[0];
  EXPECT_FALSE(is_marked()) << "it can be claimed when it is free";
  const LocksBefore listed = locks_before(folder.path, least);
  TakeBack asked(directory.get(), maker, units, listed, least);
  EXPECT_FALSE(asked.of(units[0], {{}, "pid 7", {}}, said)) << "only its deleted lock was taken back";
}

// The number of who took it and has ended is now another user's: that user loses nothing that he takes later.
TEST_F(TakingBack, WhoseProcessHasTheNumberOfOneThatEndedIsNotMeant) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of two users";
  constexpr uid_t innocent = 1;   // one that has an account
  Fd node = locked();
  Child holder([&](Child& self) { self.say('h'), self.hear(); return 0; });   // has inherited it
  node.reset();
  ASSERT_EQ(holder.hear(), 'h');
  Child taker([&](Child& self) {
    Fd again = open_at(directory.get(), "gpu.GPU-0", O_RDWR | O_NONBLOCK);
    self.say('o'), self.hear();
    const bool got = ::flock(again.get(), LOCK_EX | LOCK_NB) == 0;
    int ends[2];
    if (!got || ::pipe(ends) != 0) return 1;
    if (::fork() == 0) return ::close(ends[1]), (void)!::read(ends[0], &ends, 1), 0;   // keeps it, while we live
    again.reset();
    become(innocent);
    self.say('t'), self.hear();
    return 0;
  });
  ASSERT_EQ(taker.hear(), 'o');
  holder.say('x');
  ASSERT_EQ(holder.wait(), 0);
  taker.say('x');
  ASSERT_EQ(taker.hear(), 't');   // the kernel names him, who has it no more
  const LocksBefore before = locks_before(folder.path);
  taker.kill(SIGKILL);
  taker.wait();
  ASSERT_TRUE(eventually([&] {
    const Fd look = open_at(directory.get(), "gpu.GPU-0", O_RDWR | O_NONBLOCK);
    return ::flock(look.get(), LOCK_EX | LOCK_NB) == 0;
  }));
  const Fd fresh = open_at(directory.get(), "gpu.GPU-0", O_RDWR | O_NONBLOCK);
  Child other([&](Child& self) {
    become(innocent);
    if (::flock(fresh.get(), LOCK_EX | LOCK_NB) != 0) return 1;
    self.say('t'), self.hear();
    return 0;
  });
  ASSERT_EQ(other.hear(), 't');
  TakeBack asked(directory.get(), maker, units, before);
  std::vector<std::string> said;
  EXPECT_FALSE(asked.of(units[0], {{}, "", {}}, said));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("has got it just now"), std::string::npos) << said[0];
}

// Root takes it from who had it when he asked: also where another process of that user holds it by now …
TEST_F(TakingBack, AnotherProcessOfTheUserWhoHadItKeepsItNot) {
  const auto holder = [&](Child& self) {
    self.hear();
    const Fd node = locked();
    self.say('l'), self.hear();
    return 0;
  };
  Child first(holder), second(holder);
  first.say('!');
  ASSERT_EQ(first.hear(), 'l');
  const LocksBefore before = locks_before(folder.path);
  first.say('!');
  ASSERT_EQ(first.wait(), 0);
  second.say('!');
  ASSERT_EQ(second.hear(), 'l');
  TakeBack asked(directory.get(), maker, units, before);
  std::vector<std::string> said;
  EXPECT_TRUE(asked.of(units[0], {{}, "", {}}, said)) << said.at(0);
}

// … and where he has handed it on to another user, who is the one whom the kernel names then.
TEST_F(TakingBack, WhoWasHandedTheLockOfOneWhoHasItStillKeepsItNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of two users";
  constexpr uid_t another = 1;    // one that has an account
  Child holder([&](Child& self) {
    const Fd node = locked();
    self.say('l'), self.hear();
    Child handed([&](Child& his) {
      become(another);
      const bool named = ::flock(node.get(), LOCK_SH | LOCK_NB) == 0 && ::flock(node.get(), LOCK_EX | LOCK_NB) == 0;
      his.say(named ? 'n' : 'f'), his.hear();
      return 0;
    });
    self.say(handed.hear()), self.hear();
    return 0;
  });
  ASSERT_EQ(holder.hear(), 'l');
  const LocksBefore before = locks_before(folder.path);
  holder.say('!');
  ASSERT_EQ(holder.hear(), 'n');
  TakeBack asked(directory.get(), maker, units, before);
  std::vector<std::string> said;
  EXPECT_TRUE(asked.of(units[0], {{}, "", {}}, said)) << said.at(0);
}

// Whoever interrupts init finds no node marked, which nobody could claim from then on.
const TakingBack* interrupted = nullptr;
std::atomic<int> times_interrupted{0}, times_marked{0};

TEST_F(TakingBack, NobodyInterruptsItWhileTheNodeIsMarked) {
  interrupted = this;
  times_interrupted = times_marked = 0;
  struct sigaction act {}, before {};
  act.sa_flags = SA_RESTART;
  act.sa_handler = [](int) {
    ++times_interrupted;
    if (interrupted->is_marked()) ++times_marked;
  };
  ASSERT_EQ(::sigaction(SIGTERM, &act, &before), 0);
  const pid_t process = ::getpid(), thread = ::gettid();
  std::atomic<bool> over{false};
  std::thread sender([&] {
    while (!over) {
      ::syscall(SYS_tgkill, process, thread, SIGTERM);
      std::this_thread::sleep_for(std::chrono::microseconds(100));   // else it does nothing but hear them
    }
  });
  for (int times = 0; times < 5; ++times) {
    const Fd node = locked();
    std::vector<std::string> said;
    EXPECT_TRUE(take_back(said));
  }
  over = true;
  sender.join();
  ::sigaction(SIGTERM, &before, nullptr);
  EXPECT_GT(times_interrupted, 0);
  EXPECT_EQ(times_marked, 0);
}

// A killed init leaves its mark: it says nothing, and the GPU can be claimed. While init lives nobody gets it.
struct TakenBack : ClaimStoreTest {
  bool is_had(port::ClaimStore& store) const { return try_claim(store, entry({"GPU-0"})).has_value(); }
};

TEST_F(TakenBack, TheMarkOfAKilledInitKeepsNobodyFromTheUnit) {
  auto store = open();
  ASSERT_TRUE(is_had(*store));
  std::optional<port::Claim> held = try_claim(*store, entry({"GPU-0"}));
  const Fd nodes = open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY);
  const std::string taking = directory + "/" + taking_file;
  Child init([&](Child& self) {
    held.reset();
    const NodeMaker maker(nodes.get(), directory, {});
    const std::vector<ToTakeBack> asked_for{{"GPU-0", ""}};
    const LocksBefore before = locks_before(directory);
    TakeBack asked(nodes.get(), maker, asked_for, before);
    std::vector<std::string> said;
    const bool taken = asked.of(asked_for[0], {{}, "", {}}, said);
    maker.mark("gpu.GPU-0", true);
    self.say(taken ? 't' : 'n');
    self.hear();
    return 0;
  });
  ASSERT_EQ(init.hear(), 't');
  held.reset();
  EXPECT_FALSE(is_had(*store)) << "init decides still";
  init.kill(SIGKILL);
  init.wait();
  EXPECT_EQ(::access(taking.c_str(), F_OK), 0) << "what it has left says nothing";
  EXPECT_TRUE(is_had(*store));
}

}  // namespace
}  // namespace thole::host::claim_tests
