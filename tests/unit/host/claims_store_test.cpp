#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "host/claims/claim_directory.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

using ClaimStore = ClaimStoreTest;

TEST_F(ClaimStore, TakesAFreeUnitAtOnce) {
  auto store = open();
  auto won = try_claim(*store, entry(units, 2));
  ASSERT_TRUE(won);
  EXPECT_EQ(won->keys(), (std::vector<std::string>{"GPU-0", "GPU-1"}));
}

TEST_F(ClaimStore, NeverGivesAUnitTwice) {
  auto store = open();
  auto other = open();
  auto first = try_claim(*store, entry({"GPU-2"}));
  ASSERT_TRUE(first);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-2"})));
  EXPECT_FALSE(try_claim(*other, entry({"GPU-2"})));
  first.reset();
  EXPECT_TRUE(try_claim(*other, entry({"GPU-2"})));
}

TEST_F(ClaimStore, AFileInPlaceOfATurnNodeIsNotWrittenTo) {
  const std::string path = folder.path + "/named";
  ClaimDirectory nodes(open_state_dir(StateLocation::named(path)), units);
  ASSERT_TRUE(nodes.open_turn(5, O_RDWR));
  std::filesystem::remove(path + "/turn.5");
  std::ofstream(path + "/turn.5") << "mine";   // who made a fallback can move another's file there
  EXPECT_FALSE(nodes.open_turn(5, O_RDWR));
}

TEST_F(ClaimStore, WhatIsClaimedIsMarkedSoThatTheFirstLookOfTheNextFindsIt) {
  auto held = try_claim(*open(), entry({"GPU-0"}));
  ASSERT_TRUE(held);
  std::vector<std::size_t> holders;            // at each time the rule is asked
  (void)open()->enter(entry(units))->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
    holders.push_back(queue.slots[0].holders.size());
    return model::Refuse{};
  });
  ASSERT_FALSE(holders.empty());
  EXPECT_EQ(holders.front(), 1u);
}

TEST_F(ClaimStore, TakesAllOrNothing) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-1"}));
  EXPECT_FALSE(try_claim(*store, entry(units, 4)));
  EXPECT_TRUE(try_claim(*store, entry({"GPU-0", "GPU-2", "GPU-3"}, 3)));
}

TEST_F(ClaimStore, AWaiterIsWokenByARelease) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  Child waiter([&](Child& self) {
    const Served served(*store, entry({"GPU-0"}), held, self);
    return served.ticket->progress_by_timeout() == 0 ? 0 : 1;
  });
  ASSERT_EQ(waiter.hear(), 'w');
  held.reset();
  EXPECT_EQ(waiter.wait(), 0);
}

// A process of this number, made again; -1 where that is not allowed, or the number is not free.
pid_t fork_as(pid_t number) {
  struct {   // clone_args of linux/sched.h
    alignas(8) std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
  } how{};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  how.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
}

// Who took a claim for another has ended (`thole claim`), and on a busy machine numbers come round within minutes.
TEST_F(ClaimStore, AHolderWhoseTakersNumberIsUsedAgainIsStillKnown) {
  pid_t again = -1, taker = -1;
  std::unique_ptr<Child> made;
  for (int tries = 0; again < 0 && tries < 50; ++tries) {
    made.reset();                                              // whose keeper hears it
    made = std::make_unique<Child>([&](Child& self) {
      auto store = open();
      auto mine = claim(*store, entry({"GPU-0"}));
      if (::fork() == 0) {                                     // keeps it
        self.say('c');
        self.hear();
      }
      return 0;
    });
    ASSERT_EQ(made->hear(), 'c');
    taker = made->pid();
    made->wait();
    again = fork_as(taker);
    if (again < 0 && errno == EPERM) GTEST_SKIP() << "making a process of a given number needs CAP_SYS_ADMIN";
    if (again == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ASSERT_EQ(again, taker);
  const auto holdings = open()->holdings();
  ::kill(again, SIGKILL);
  ::waitpid(again, nullptr, 0);
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].id, "0123456789abcdef");
  EXPECT_TRUE(holdings[0].verified);
}

TEST_F(ClaimStore, ReportsHoldersAndWaiters) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-3"}));
  auto mine = entry({"GPU-3"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  auto holdings = store->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].key, "GPU-3");
  EXPECT_EQ(holdings[0].pid, ::getpid());
  EXPECT_EQ(holdings[0].id, "0123456789abcdef");
  EXPECT_TRUE(holdings[0].verified);
  auto waiting = store->waiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].pid, ::getpid());
  ticket.reset();
  EXPECT_TRUE(store->waiting().empty());
}

}  // namespace
}  // namespace thole::host::claim_tests
