// One test for each of the "Rules of the locks" (design of the claims). Each broken one loses a wake-up or a claim.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "host/claims/queue_file.hpp"
#include "unit/host/claims_fixture.hpp"

namespace {

struct TriedNode {
  dev_t device;
  ino_t inode;
  unsigned times;  // that a lock of it for oneself alone was tried in this thread
};
thread_local TriedNode tried;

}  // namespace

// In place of the C library's, to count.
extern "C" int flock(int fd, int how) noexcept {
  struct stat node;
  if (::fstat(fd, &node) == 0 && node.st_dev == tried.device && node.st_ino == tried.inode && (how & LOCK_EX))
    ++tried.times;
  return static_cast<int>(::syscall(SYS_flock, fd, how));
}

namespace thole::host::claim_tests {
namespace {

struct LockRules : ClaimStoreTest {
  Fd open_node(const std::string& name, int flags) {
    return open_at(AT_FDCWD, (directory + "/" + name).c_str(), flags | O_NONBLOCK);
  }
};

TEST_F(LockRules, WhoSharesWithoutABerthIsListed) {
  auto store = open_claim_store(options(StateLocation::named(directory)));
  Fd node = open_node("gpu.GPU-0", O_RDWR);
  ASSERT_EQ(::flock(node.get(), LOCK_SH), 0);
  const std::vector<model::Holding> held = store->holdings();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].key, "GPU-0");
  EXPECT_TRUE(held[0].held);
}

TEST_F(LockRules, OutsideOfAllocATryIsOneToShare) {
  auto slow = options(StateLocation::named(directory));
  slow.patience = slow.look_patience = {Millis(20), Millis(60)};
  auto store = open_claim_store(slow);
  Fd alloc = open_node("alloc", O_RDWR);
  ASSERT_EQ(::flock(alloc.get(), LOCK_EX), 0);
  struct stat node;
  ASSERT_EQ(::fstat(open_node("gpu.GPU-0", O_RDWR).get(), &node), 0);
  tried = {node.st_dev, node.st_ino, 0};
  EXPECT_TRUE(store->holdings().empty());
  store->waiting();
  EXPECT_EQ(tried.times, 0u);
  alloc.reset();
  EXPECT_TRUE(store->holdings().empty());
  EXPECT_GT(tried.times, 0u);
}

TEST_F(LockRules, LocksAreHeldThroughDescriptorsThatCanWriteSoThatTheirEndHangsUp) {
  auto store = open();
  auto won = try_claim(*store, entry(units, 2));
  unsigned fifos = 0;
  for (const int lock : won->descriptors()) {
    struct stat node;
    ASSERT_EQ(::fstat(lock, &node), 0);
    if (!S_ISFIFO(node.st_mode)) continue;
    ++fifos;
    EXPECT_EQ(::fcntl(lock, F_GETFL) & O_ACCMODE, O_RDWR);
  }
  EXPECT_EQ(fifos, 2u);
}

TEST_F(LockRules, AChildThatGivesUpItsCopiesDoesNotFreeTheClaim) {
  auto store = open();
  auto won = try_claim(*store, entry({"GPU-0"}));
  Child child([&](Child&) {
    won.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-0"})));
  won.reset();
  EXPECT_TRUE(try_claim(*store, entry({"GPU-0"})));
}

TEST_F(LockRules, AChildThatLivesOnHoldsTheClaimOfItsDeadParent) {
  auto store = open();
  Child parent([&](Child& self) {
    auto won = try_claim(*store, entry({"GPU-0"}));
    self.say(won ? 'c' : '-');
    if (::fork() == 0) {
      self.hear();   // until the test hangs up
      ::_exit(0);
    }
    return 0;
  });
  ASSERT_EQ(parent.hear(), 'c');
  ::waitpid(parent.pid(), nullptr, 0);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-0"})));
  auto holdings = store->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_TRUE(holdings[0].verified && holdings[0].uid == ::geteuid());
  EXPECT_EQ(holdings[0].pid, 0) << "the number of one who is gone may be another's";
  parent.say('!');
  EXPECT_TRUE(eventually([&] { return try_claim(*store, entry({"GPU-0"})).has_value(); }));
}

TEST_F(LockRules, SharingAndOwningAreNeverConvertedIntoEachOther) {
  auto store = open();
  try_claim(*store, entry({"GPU-0"}));                      // leaves a note: the next pass tries the slot exclusively
  auto first = try_claim(*store, sharer({"GPU-0"}, 1000));
  ASSERT_TRUE(first);
  auto second = try_claim(*store, sharer({"GPU-0"}, 1000));
  ASSERT_TRUE(second);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-0"}))) << "a failed attempt to own";
  first.reset();
  EXPECT_FALSE(try_claim(*store, entry({"GPU-0"}))) << "has cost nobody his share";
  second.reset();
  EXPECT_TRUE(try_claim(*store, entry({"GPU-0"})));
}

TEST_F(LockRules, TheWaiterItselfTakesTheLock) {
  auto store = open();
  Child waiter([&](Child& self) {
    auto won = claim(*store, entry({"GPU-0"}));
    self.say('c');
    self.hear();
    return won ? 0 : 1;
  });
  ASSERT_EQ(waiter.hear(), 'c');
  auto holdings = store->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].pid, waiter.pid());
  EXPECT_TRUE(holdings[0].verified);
}

TEST_F(LockRules, EveryDescriptorIsClosedByExec) {
  auto store = open();
  auto won = try_claim(*store, entry(units, 4));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  ticket->step(fifo_rule(mine));
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    std::string path = std::filesystem::read_symlink(fd.path(), gone);
    if (path.rfind(folder.path, 0) != 0) continue;
    EXPECT_NE(::fcntl(std::stoi(fd.path().filename()), F_GETFD) & FD_CLOEXEC, 0) << path;
  }
}

unsigned index_of(const std::string& directory, std::uint64_t number) {
  Fd file = open_at(AT_FDCWD, (directory + "/queue").c_str(), O_RDWR);
  QueueFile queue(file.get());
  queue.read();
  for (const WrittenTicket& ticket : queue.tickets())
    if (ticket.view.number == number) return ticket.index;
  return most_tickets;
}

// Research prototype, bug a: POLLHUP is a state; a new owner of the turn FIFO hid it from the watcher of the last one.
TEST_F(LockRules, ATurnFifoThatSomebodyStillWatchesIsNotUsedAgain) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto join = [&] {
    auto ticket = store->enter(mine);
    EXPECT_FALSE(ticket->step(fifo_rule(mine)));
    return ticket;
  };
  auto first = join();
  ASSERT_EQ(index_of(directory, store->waiting().at(0).ticket), 0u);
  Fd watcher = open_node("turn.0", O_RDONLY);               // has not polled yet
  first.reset();
  auto second = join();
  EXPECT_EQ(index_of(directory, store->waiting().at(0).ticket), 1u);
  pollfd polled{watcher.get(), 0, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 1) << "the end of the first is still to be seen";
  watcher.reset();
  auto third = join();
  EXPECT_EQ(index_of(directory, store->waiting().at(1).ticket), 0u);
}

TEST_F(LockRules, TheQueueIsWholeFromTheStartSoThatNoTicketNeedsSpace) {
  auto store = open();
  struct stat queue;
  ASSERT_EQ(::stat((directory + "/queue").c_str(), &queue), 0);
  EXPECT_EQ(queue.st_size, ticket_offset(most_tickets));
  EXPECT_GE(queue.st_blocks * 512, queue.st_size);
}

TEST_F(LockRules, AStrangersOpenHidesAReleaseForTwoSecondsAtMost) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  Fd stranger = open_node("gpu.GPU-0", O_RDWR);
  held.reset();
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ticket->sleep({}, std::nullopt), port::Wake::again);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Seconds(4));
  EXPECT_TRUE(ticket->step(fifo_rule(mine)));
  EXPECT_EQ(ticket->progress_by_timeout(), 1u) << "and that is what the torture counts";
}

TEST_F(LockRules, AStrangersLockThatCannotHangUpDoesNotMakeAWaiterSpin) {
  auto store = open();
  Fd keeper = open_node("gpu.GPU-0", O_RDONLY);             // as flock(1) would
  ASSERT_EQ(::flock(keeper.get(), LOCK_EX | LOCK_NB), 0);
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  EXPECT_EQ(ticket->sleep({}, std::chrono::steady_clock::now() + Millis(300)), port::Wake::deadline);
}

TEST_F(LockRules, NothingWakesASleeperWhileNothingChanges) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  auto other = try_claim(*store, entry({"GPU-1"}));         // others come and go, and look
  store->holdings();
  other.reset();
  store->waiting();
  EXPECT_EQ(ticket->sleep({}, std::chrono::steady_clock::now() + Millis(300)), port::Wake::deadline);
}

}  // namespace
}  // namespace thole::host::claim_tests
