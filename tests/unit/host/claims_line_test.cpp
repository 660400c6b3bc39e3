// The waiting line: order, gangs, those who stop, die, give back and come again.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "host/claims/kernel_locks.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct Line : ClaimStoreTest {
  // Of one process, for a GPU that it has; the first stands in line.
  struct TwoTickets {
    std::unique_ptr<port::ClaimStore> store;
    std::optional<port::Claim> held;
    port::Entry mine;
    std::unique_ptr<port::Ticket> first, second;
  };
  TwoTickets two_tickets() {
    auto store = open();
    auto held = try_claim(*store, entry({"GPU-0"}));
    auto mine = entry({"GPU-0"});
    auto first = store->enter(mine), second = store->enter(mine);
    EXPECT_FALSE(first->step(fifo_rule(mine)));
    return {std::move(store), std::move(held), std::move(mine), std::move(first), std::move(second)};
  }

  // A child that joins the line, says 'w', waits, says 'c' with the claim, and lets go when told or hung up on.
  std::unique_ptr<Child> waiter(port::ClaimStore& store, port::Entry wanted, std::optional<port::Claim>& held) {
    return std::make_unique<Child>([&store, wanted, &held](Child& self) {
      const Served served(store, wanted, held, self);
      self.say('c');
      self.hear();
      return 0;
    });
  }
};

TEST_F(Line, ServesInOrderOfArrival) {
  auto store = open();
  constexpr unsigned count = 40;
  struct Board { std::atomic<unsigned> next, order[count]; };
  auto* board = static_cast<Board*>(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto held = try_claim(*store, entry({"GPU-0"}));
  std::vector<std::unique_ptr<Child>> children;
  for (unsigned i = 0; i < count; ++i) {
    children.push_back(std::make_unique<Child>([&, i](Child& self) {
      const Served served(*store, entry({"GPU-0"}), held, self);
      board->order[board->next++] = i;
      return static_cast<int>(served.ticket->progress_by_timeout());
    }));
    ASSERT_EQ(children.back()->hear(), 'w');
  }
  held.reset();
  for (auto& child : children) EXPECT_EQ(child->wait(), 0) << "won by a watch, not by the clock";
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(board->order[i], i);
  ::munmap(board, sizeof(Board));
}

TEST_F(Line, AnOwnerSeesWhoWantsHisUnits) {
  auto store = open();
  std::optional<port::Claim> zero = try_claim(*store, entry({"GPU-0"})), one = try_claim(*store, entry({"GPU-1"}));
  EXPECT_TRUE(store->wanted_by(*zero).empty());
  auto child = waiter(*store, entry({"GPU-0"}), zero);
  ASSERT_EQ(child->hear(), 'w');
  EXPECT_EQ(store->wanted_by(*zero), std::vector<pid_t>{child->pid()});
  EXPECT_TRUE(store->wanted_by(*one).empty()) << "it does not wait for that one";
  zero.reset();
  ASSERT_EQ(child->hear(), 'c');
  child->say('q');
  EXPECT_EQ(child->wait(), 0);
}

TEST_F(Line, FiveHundredWaitersAllGetTheirTurn) {
  auto store = open();
  std::optional<port::Claim> held = try_claim(*store, entry({"GPU-0"}));
  std::vector<std::unique_ptr<Child>> children;
  for (unsigned i = 0; i < 500; ++i) {
    children.push_back(std::make_unique<Child>([&](Child& self) {
      const Served served(*store, entry({"GPU-0"}), held, self);
      return static_cast<int>(served.ticket->progress_by_timeout());
    }));
    ASSERT_EQ(children.back()->hear(), 'w');
  }
  EXPECT_EQ(store->waiting().size(), 500u);
  held.reset();
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_TRUE(store->waiting().empty());
}

TEST_F(Line, AWideRequestIsNotStarvedByNarrowOnes) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto wide = waiter(*store, entry(units, 4), held);
  ASSERT_EQ(wide->hear(), 'w');
  auto narrow = entry(units, 1);
  auto ticket = store->enter(narrow);
  EXPECT_FALSE(ticket->step(fifo_rule(narrow))) << "three units are free, but the wide one came first";
  held.reset();
  EXPECT_EQ(wide->hear(), 'c');
}

TEST_F(Line, DisjointSetsDoNotHoldEachOtherUp) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto first = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(first->hear(), 'w');
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"})));
}

TEST_F(Line, WhoWouldPassAnotherIsAskedAgainWithTheEndsOfWhatIsHeld) {
  auto store = open();
  auto ends = entry({"GPU-0"});
  ends.time = Seconds(600);
  auto held = try_claim(*store, ends);
  auto wide = entry({"GPU-0", "GPU-1"}, 2);
  auto first = store->enter(wide);
  EXPECT_FALSE(first->step(fifo_rule(wide)));
  std::vector<bool> told;                      // at each time the rule is asked
  auto quick = store->enter(entry({"GPU-0", "GPU-1"}));
  EXPECT_TRUE(quick->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
    told.push_back(!queue.slots[0].holders.empty() && queue.slots[0].holders[0].until.has_value());
    return model::Take{{1}, {}};
  }));
  if (!kernel_locks(under_alloc).names_all())
    GTEST_SKIP() << "others on this machine have more locks than are read under alloc";
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
}

TEST_F(Line, ADeadWaiterIsForgottenAndItsFollowerWoken) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto first = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(first->hear(), 'w');
  auto second = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(second->hear(), 'w');
  first->kill(SIGKILL);
  first->wait();
  EXPECT_TRUE(eventually([&] { return store->waiting().size() == 1; }));
  held.reset();
  EXPECT_EQ(second->hear(), 'c');
}

TEST_F(Line, AStoppedWaiterIsOvertakenAndKeepsItsTicket) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto first = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(first->hear(), 'w');
  auto second = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(second->hear(), 'w');
  auto ticket = store->waiting().at(0).ticket;
  first->kill(SIGSTOP);
  held.reset();
  EXPECT_EQ(second->hear(), 'c');
  ASSERT_EQ(store->waiting().size(), 1u);
  EXPECT_EQ(store->waiting()[0].ticket, ticket);
  first->kill(SIGCONT);
  second->say('!');
  EXPECT_EQ(first->hear(), 'c');
}

TEST_F(Line, WhoGivesBackAndStepsAgainIsBackWhereItStood) {
  auto [store, held, mine, first, second] = two_tickets();
  EXPECT_FALSE(second->step(fifo_rule(mine)));
  auto tickets = store->waiting();
  held.reset();
  auto won = first->step(fifo_rule(mine));
  ASSERT_TRUE(won);
  won.reset();                                              // the GPU proved unusable
  EXPECT_FALSE(first->step([](auto&&...) -> model::Decision { return model::Wait{}; }));
  auto again = store->waiting();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].ticket, tickets[0].ticket);
  EXPECT_EQ(again[0].since, tickets[0].since);
}

TEST_F(Line, ANudgeWakesTheOneItNames) {
  auto [store, held, mine, first, second] = two_tickets();
  EXPECT_FALSE(second->step(fifo_rule(mine)));
  auto number = store->waiting().at(1).ticket;
  EXPECT_FALSE(first->step([&](auto&&...) -> model::Decision {
    model::Wait wait;
    wait.nudge = {number};
    return wait;
  }));
  EXPECT_EQ(second->sleep({}, std::nullopt), port::Wake::nudge);
}

// A head that was promised nothing, behind a holder without an end, keeps everybody else from what is free; a new end makes a
// promise possible, and with it backfill. The head cannot start itself, but sees to those behind it.
TEST_F(Line, AChangedEndWakesTheFirstThatWaitsForIt) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto other = entry({"GPU-1"}), mine = entry({"GPU-0"});
  auto elsewhere = try_claim(*store, other);
  auto unconcerned = store->enter(other), first = store->enter(mine), second = store->enter(mine);
  EXPECT_FALSE(unconcerned->step(fifo_rule(other)));
  EXPECT_FALSE(first->step(fifo_rule(mine)));
  EXPECT_FALSE(second->step(fifo_rule(mine)));
  const auto soon = std::chrono::steady_clock::now() + Millis(1500);  // before the look that everybody takes after 2 s
  store->amend(held->id(), WallTime(Seconds(2'000'000'000)));
  EXPECT_EQ(first->sleep({}, soon), port::Wake::nudge);
  store->amend(held->id(), WallTime(Seconds(2'000'000'000)));
  EXPECT_EQ(first->sleep({}, std::chrono::steady_clock::now()), port::Wake::deadline) << "nothing has changed";
  EXPECT_EQ(second->sleep({}, std::chrono::steady_clock::now()), port::Wake::deadline) << "the first sees to the second";
  EXPECT_EQ(unconcerned->sleep({}, std::chrono::steady_clock::now()), port::Wake::deadline);
}

TEST_F(Line, ANewEndIsRecordedOnlyAtTheMomentByWhichItWasDecided) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  const WallTime end{Seconds(2'000'000'000)};
  const auto amend_as_of = [&](const model::Moment& moment) { return store->amend_as_of(moment, held->id(), end); };
  const auto until = [&] { return store->holdings().at(0).until; };
  const model::Moment alone = store->moment().value();
  EXPECT_EQ(store->moment(), alone) << "nothing has changed";

  auto another = entry({"GPU-1"});
  another.id = "fedcba9876543210";
  auto other = try_claim(*store, another);
  EXPECT_EQ(amend_as_of(alone), port::Amended::outdated) << "somebody has claimed";
  EXPECT_TRUE(store->amend(other->id(), end));
  const model::Moment two = store->moment().value();
  auto mine = entry({"GPU-0"});
  auto waits = store->enter(mine);
  EXPECT_FALSE(waits->step(fifo_rule(mine)));
  EXPECT_EQ(store->moment(), two) << "whoever waits";
  EXPECT_TRUE(store->amend(other->id(), end + Seconds{1}));
  EXPECT_EQ(amend_as_of(two), port::Amended::outdated) << "another's end is a later one";
  EXPECT_EQ(until(), std::nullopt);

  const model::Moment now = store->moment().value();
  EXPECT_TRUE(store->amend(other->id(), end));
  EXPECT_EQ(amend_as_of(now), port::Amended::recorded) << "an earlier end keeps nobody waiting";
  EXPECT_EQ(until(), end);
  const auto soon = std::chrono::steady_clock::now() + Millis(1500);
  EXPECT_EQ(waits->sleep({}, soon), port::Wake::nudge) << "who waits plans with it";
  other.reset();
  EXPECT_EQ(store->amend_as_of(store->moment().value(), "nobodys", end), port::Amended::cannot);
}

TEST_F(Line, AChangedEndWakesBeyondAStoppedWaiter) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto first = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(first->hear(), 'w');
  auto mine = entry({"GPU-0"});
  auto second = store->enter(mine);
  EXPECT_FALSE(second->step(fifo_rule(mine)));
  first->kill(SIGSTOP);
  ASSERT_TRUE(eventually([&] {
    return read_file("/proc/" + std::to_string(first->pid()) + "/stat")->find(") T ") != std::string::npos;
  }));
  store->amend(held->id(), WallTime(Seconds(2'000'000'000)));
  EXPECT_EQ(second->sleep({}, std::chrono::steady_clock::now() + Millis(1500)), port::Wake::nudge);
}

TEST_F(Line, TheLeavingOfAFollowedTicketWakes) {
  auto [store, held, mine, first, second] = two_tickets();
  auto number = store->waiting().at(0).ticket;
  EXPECT_FALSE(second->step([&](auto&&...) -> model::Decision {
    model::Wait wait;
    wait.follow = {number};
    return wait;
  }));
  first.reset();
  EXPECT_EQ(second->sleep({}, std::nullopt), port::Wake::turn);
}

// What is done when a store reaches a step, once.
std::string step_awaited;
std::function<void()> at_step;

void step_reached(const char* step) {
  if (step == step_awaited && at_step) std::exchange(at_step, nullptr)();
}

// Names may be asked of the network, and who looks can be stopped: neither keeps the end of a waiter from the one behind him.
TEST_F(Line, WhoLooksAtTheLineHidesNobodysEndFromTheOneBehind) {
  auto [store, held, mine, first, second] = two_tickets();
  EXPECT_FALSE(second->step(fifo_rule(mine)));
  std::optional<port::Wake> heard;
  step_awaited = "looked";
  at_step = [&] {
    first.reset();
    heard = second->sleep({}, std::chrono::steady_clock::now() + Millis(1500));
  };
  auto made = options(StateLocation::named(directory));
  made.step_hook = step_reached;
  EXPECT_EQ(open_claim_store(made)->waiting().size(), 2u);
  EXPECT_EQ(heard, port::Wake::turn);
}

// A holder that asks who wants his GPU tries the locks of waiters, of dead ones too.
TEST_F(Line, WhoTakesAHoldersTrialForADeadWaitersLockHearsOfItsEnd) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto dead = waiter(*store, entry({"GPU-0"}), held);
  ASSERT_EQ(dead->hear(), 'w');
  auto mine = entry({"GPU-0"});
  auto second = store->enter(mine);
  const WrittenTicket ticket = tickets().at(0);
  dead->kill(SIGKILL);
  dead->wait();
  const Fd word = say(ticket.index, ticket);   // else nobody waits for him
  step_awaited = "tried";
  at_step = [&] { EXPECT_FALSE(second->step(fifo_rule(mine))); };
  auto made = options(StateLocation::named(directory));
  made.step_hook = step_reached;
  open_claim_store(made)->wanted_by(*held);
  EXPECT_FALSE(at_step);
  EXPECT_EQ(second->sleep({}, std::chrono::steady_clock::now() + Millis(1500)), port::Wake::turn);
}

TEST_F(Line, TheReleaseOfOneSharerAmongManyWakesTheHead) {
  auto store = open();
  std::vector<port::Claim> sharers;
  for (unsigned i = 0; i < model::share_berths; ++i) sharers.push_back(*try_claim(*store, sharer({"GPU-0"}, 100)));
  auto mine = sharer({"GPU-0"}, 100);
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine))) << "a unit has sixteen berths";
  sharers.erase(sharers.begin() + 7);
  EXPECT_EQ(ticket->sleep({}, std::nullopt), port::Wake::release);
  EXPECT_TRUE(ticket->step(fifo_rule(mine)));
}

TEST_F(Line, ARefusalLeavesNoTrace) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  EXPECT_FALSE(ticket->step([](auto&&...) -> model::Decision { return model::Refuse{false, "sick"}; }));
  EXPECT_TRUE(store->waiting().empty());
  EXPECT_TRUE(std::holds_alternative<model::Refuse>(ticket->decision()));
}

TEST_F(Line, SleepEndsAtTheDeadlineAndForOtherDescriptors) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  EXPECT_EQ(ticket->sleep({}, std::chrono::steady_clock::now()), port::Wake::deadline);
  Pipe pipe = make_pipe();
  pipe.write.reset();
  int also[] = {pipe.read.get()};
  EXPECT_EQ(ticket->sleep(also, std::nullopt), port::Wake::other_fd);
}

TEST_F(Line, OneStoreServesSeveralThreads) {
  auto store = open();
  std::atomic<int> owners = 0, worst = 0, wins = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        auto won = claim(*store, entry({"GPU-0"}));
        if (!won) continue;
        int now = ++owners;
        if (now > worst) worst = now;
        ++wins;
        --owners;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(worst, 1);
  EXPECT_EQ(wins, 200);
}

TEST_F(Line, AChildOfAForkWorksWithAStoreOfItsOwnMaking) {
  auto store = open();
  auto won = try_claim(*store, entry({"GPU-0"}));
  Child child([&](Child&) {
    if (try_claim(*store, entry({"GPU-0"}))) return 1;
    return try_claim(*store, entry({"GPU-1"})) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

// Anybody can write to a waiter's mailbox, without end. Each time he is woken costs a pass.
TEST_F(Line, WhoIsCalledWithoutEndIsWokenSomeTimesASecondAndKeepsHisDeadline) {
  auto store = open();
  const auto held = try_claim(*store, entry({"GPU-0"}));
  auto ticket = store->enter(entry({"GPU-0"}));
  ASSERT_FALSE(ticket->step(fifo_rule(entry({"GPU-0"}))));
  Child caller([&](Child& self) {
    const Fd mailbox = open_at(AT_FDCWD, (directory + "/turn.0").c_str(), O_RDWR);
    self.say('w');
    pollfd over{self.ear(), POLLIN, 0};
    const auto last = std::chrono::steady_clock::now() + Seconds(30);
    while (::poll(&over, 1, 0) == 0 && std::chrono::steady_clock::now() < last)
      if (::write(mailbox.get(), "!", 1) != 1) return 1;
    return 0;
  });
  ASSERT_EQ(caller.hear(), 'w');
  const auto begin = std::chrono::steady_clock::now();
  const auto deadline = begin + Seconds(1);
  unsigned woken = 0;
  port::Wake last = port::Wake::nudge;
  while (last != port::Wake::deadline && std::chrono::steady_clock::now() < begin + Seconds(20)) {
    last = ticket->sleep({}, deadline);
    ++woken;
  }
  const auto lasted = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - begin);
  caller.say('!');
  EXPECT_EQ(last, port::Wake::deadline);
  EXPECT_GT(woken, 2u) << "he hears them";
  EXPECT_LE(woken, 30 + lasted.count() / 20);
}

}  // namespace
}  // namespace thole::host::claim_tests
