// What claims do while somebody keeps `alloc`, and what forged tickets cannot do.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>

#include <atomic>
#include <random>

#include "base/text.hpp"
#include "host/claims/queue_file.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct Unordered : ClaimStoreTest {
  std::unique_ptr<port::ClaimStore> impatient() {
    auto made = options(StateLocation::named(directory));
    made.patience = made.look_patience = {Millis(20), Millis(100)};
    return open_claim_store(made);
  }
  Fd keep_alloc() {
    Fd alloc = node("alloc");
    EXPECT_EQ(::flock(alloc.get(), LOCK_EX), 0);
    return alloc;
  }
  // Writes a record of another's making over one in the queue.
  void forge(unsigned index, const WrittenTicket& ticket) {
    Fd queue = node("queue");
    const TicketRecord record = encode(ticket);
    ASSERT_EQ(::pwrite(queue.get(), &record, sizeof record, ticket_offset(index)), static_cast<ssize_t>(sizeof record));
    QueueHeader header = fresh_queue_header();
    header.used = most_tickets;
    ASSERT_EQ(::pwrite(queue.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  }
  WrittenTicket written(std::uint64_t number) {
    WrittenTicket made;
    made.view.number = number;
    made.view.eligible.set(0).set(1).set(2).set(3);
    made.view.count = 1;
    made.pid = static_cast<std::uint32_t>(::getpid());
    made.view.uid = ::geteuid();
    return made;
  }
};

TEST_F(Unordered, WhoWaitsForAllocIsInterruptedAtOnce) {
  auto store = open();
  Fd alloc = keep_alloc();
  Fd cancel(::eventfd(1, EFD_CLOEXEC));
  auto wanted = entry({"GPU-0"});
  wanted.cancel = {cancel.get()};
  EXPECT_EQ(thole::test::said([&] { try_claim(*store, wanted); }).substr(0, 11), "interrupted");
}

TEST_F(Unordered, AnAllocThatIsKeptIsWaitedForOnceAMinuteOnly) {
  auto store = impatient();
  Fd alloc = keep_alloc();
  auto wanted = entry({"GPU-0"});
  unsigned told = 0;
  wanted.caution = [&](const std::string&) { ++told; };
  auto ticket = store->enter(wanted);
  auto held = try_claim(*store, entry({"GPU-0"}));
  ASSERT_TRUE(held);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
    const auto& wait = std::get<model::Wait>(ticket->decision());
    EXPECT_TRUE(wait.look_again && *wait.look_again < Seconds(1)) << "nobody will wake it";
  }
  EXPECT_LE(told, 1u);
  EXPECT_TRUE(store->waiting().empty()) << "the queue belongs to those inside";
  alloc.reset();
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_EQ(store->waiting().size(), 1u) << "and is used again as soon as alloc can be had";
}

// The keeper of a claim answers others: a new end is recorded, and told to who waits, without the order that alloc gives.
TEST_F(Unordered, ANewEndWaitsForNobodyWhoKeepsAlloc) {
  auto made = options(StateLocation::named(directory));
  made.patience = {std::chrono::hours(1), std::chrono::hours(1)};
  made.look_patience = {Millis(20), Millis(20)};
  auto store = open_claim_store(made);
  auto wanted = entry({"GPU-0"});
  auto held = try_claim(*store, wanted);
  auto waits = store->enter(wanted);
  EXPECT_FALSE(waits->step(fifo_rule(wanted)));
  Fd alloc = keep_alloc();
  const WallTime end(Seconds(2'000'000'000));
  EXPECT_TRUE(store->amend(held->id(), end));
  ASSERT_EQ(store->holdings().size(), 1u);
  EXPECT_EQ(store->holdings()[0].until, end);
  const auto soon = std::chrono::steady_clock::now() + Millis(1500);  // before the look that everybody takes after 2 s
  EXPECT_EQ(waits->sleep({}, soon), port::Wake::nudge);
  alloc.reset();                          // for the ticket, which leaves the line
}

// Two sharers and two gangs, with processes that take and leave alloc all the time: nobody ever owns what another has.
TEST_F(Unordered, ExclusionHoldsWhileTwoAlternateOnAlloc) {
  auto store = impatient();
  std::atomic<bool> over = false;
  std::vector<std::thread> keepers;
  for (int i = 0; i < 2; ++i)
    keepers.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      Fd alloc = node("alloc");
      while (!over) {
        if (::flock(alloc.get(), LOCK_EX | LOCK_NB) == 0) std::this_thread::sleep_for(Millis(random() % 150));
        ::flock(alloc.get(), LOCK_UN);
        std::this_thread::sleep_for(Millis(random() % 3));
      }
    });
  std::array<std::atomic<int>, 2> owners{}, sharers{};
  std::atomic<unsigned> claims = 0;
  std::atomic<bool> broken = false;
  const auto work = [&](const port::Entry& wanted) {
    auto own = impatient();
    for (unsigned done = 0; done < 8 && !broken;) {
      auto won = claim(*own, wanted, Seconds(60));
      if (!won) break;
      auto& mine = wanted.shared ? sharers : owners;
      for (const std::string& key : won->keys()) {
        const auto unit = static_cast<std::size_t>(key.back() - '0');
        const int before = mine[unit].fetch_add(1);
        if ((!wanted.shared && (before != 0 || sharers[unit] != 0)) || (wanted.shared && owners[unit] != 0)) broken = true;
      }
      std::this_thread::sleep_for(Millis(2));
      for (const std::string& key : won->keys()) --mine[static_cast<std::size_t>(key.back() - '0')];
      ++done, ++claims;
    }
  };
  std::vector<std::thread> users;
  users.emplace_back(work, entry({"GPU-0", "GPU-1"}, 2));
  users.emplace_back(work, entry({"GPU-1", "GPU-0"}, 2));
  users.emplace_back(work, sharer({"GPU-0"}, 1000));
  users.emplace_back(work, sharer({"GPU-0"}, 1000));
  for (std::thread& user : users) user.join();
  over = true;
  for (std::thread& keeper : keepers) keeper.join();
  EXPECT_FALSE(broken);
  EXPECT_EQ(claims, 32u) << "and everybody is served";
}

// ---- Tickets that are not what they say ----

TEST_F(Unordered, ATicketOfTheLargestNumberEndsNoOrder) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  forge(9, written((std::uint64_t{1} << 62) - 1));
  auto wanted = entry({"GPU-0"});
  auto first = store->enter(wanted), second = store->enter(wanted);
  EXPECT_FALSE(first->step(fifo_rule(wanted)));
  EXPECT_FALSE(second->step(fifo_rule(wanted)));
  const auto waiting = store->waiting();
  ASSERT_EQ(waiting.size(), 2u) << "the forged one is nobody's";
  EXPECT_LT(waiting[0].ticket, waiting[1].ticket);
  held.reset();
  EXPECT_FALSE(second->step(fifo_rule(wanted))) << "order holds";
  EXPECT_TRUE(first->step(fifo_rule(wanted)));
}

TEST_F(Unordered, AHeaderCannotMakeTheNextNumberOneThatCountsNot) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  Fd queue = node("queue");
  QueueHeader header = fresh_queue_header();
  header.directory = ~std::uint64_t{0};
  ASSERT_EQ(::pwrite(queue.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  auto wanted = entry({"GPU-0"});
  auto ticket = store->enter(wanted);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  ASSERT_EQ(store->waiting().size(), 1u);
  EXPECT_LE(store->waiting()[0].ticket, boot_clock_us());
}

// One waits for GPU 0, which another has.
class UnorderedWaiter : public Unordered {
 protected:
  void SetUp() override {
    Unordered::SetUp();
    store = open();
    held = try_claim(*store, wanted);
    ticket = store->enter(wanted);
    EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
    ASSERT_EQ(tickets().size(), 1u);
    mine = tickets()[0];
  }

  const port::Entry wanted = entry({"GPU-0"});
  std::unique_ptr<port::ClaimStore> store;
  std::optional<port::Claim> held;
  std::unique_ptr<port::Ticket> ticket;
  WrittenTicket mine;
};

TEST_F(UnorderedWaiter, AnOverwrittenTicketIsWrittenAgainWithItsNumber) {
  forge(mine.index, written(7));
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  ASSERT_EQ(tickets().size(), 1u);
  EXPECT_EQ(tickets()[0].view.number, mine.view.number);
  EXPECT_EQ(tickets()[0].view.eligible, mine.view.eligible);
}

TEST_F(UnorderedWaiter, AForgedTicketWithMyNumberIsNotTakenForMine) {
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  forge(9, written(mine.view.number));
  std::size_t shown = 0;
  EXPECT_FALSE(ticket->step([&](const model::QueueView& queue, auto, const auto&, auto) -> model::Decision {
    shown = queue.tickets.size();
    return model::Wait{};
  }));
  EXPECT_EQ(shown, 1u);
}

TEST_F(UnorderedWaiter, WhoLeavesTheLineTakesItsTicketAlong) {
  const auto refuse = [](auto&&...) -> model::Decision { return model::Refuse{}; };
  EXPECT_FALSE(ticket->step(refuse));
  EXPECT_TRUE(tickets().empty()) << "refused";
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  ASSERT_EQ(tickets().size(), 1u);
  held.reset();
  held = ticket->step(fifo_rule(wanted));
  EXPECT_TRUE(held);
  EXPECT_TRUE(tickets().empty()) << "served";
  auto other = store->enter(wanted);
  EXPECT_FALSE(other->step(fifo_rule(wanted)));
  ASSERT_EQ(tickets().size(), 1u);
  other.reset();
  EXPECT_TRUE(tickets().empty()) << "gave up";
}

TEST_F(UnorderedWaiter, TicketsOfTheDeadAreDroppedByWhoMeetsThem) {
  forge(9, written(mine.view.number - 1));
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_FALSE(std::get<model::Wait>(ticket->decision()).behind) << "at this very look";
  ASSERT_EQ(tickets().size(), 1u);
  EXPECT_EQ(tickets()[0].index, mine.index);
}

TEST_F(Unordered, ALineFullOfTheDeadHasRoom) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  for (unsigned index = 0; index < most_tickets; ++index) {
    WrittenTicket dead = written(index + 1);
    dead.view.eligible.reset(0);          // nobody who waits for GPU 0 has to look whether they live
    forge(index, dead);
  }
  auto wanted = entry({"GPU-0"});
  std::string told;
  wanted.caution = [&](const std::string& text) { told = text; };
  EXPECT_FALSE(store->enter(wanted)->step(fifo_rule(wanted)));
  EXPECT_EQ(told, "");
  EXPECT_TRUE(tickets().empty()) << "the waiter has had a ticket among them, and has left";
}

TEST_F(Unordered, WhoStartsWakesThoseTheRuleNames) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto wanted = entry({"GPU-0"});
  auto waiter = store->enter(wanted);
  EXPECT_FALSE(waiter->step(fifo_rule(wanted)));
  const auto number = store->waiting().at(0).ticket;
  auto other = store->enter(entry({"GPU-1"}));
  EXPECT_TRUE(other->step([&](const auto&, auto, const auto&, auto) -> model::Decision { return model::Take{{1}, {number}}; }));
  EXPECT_EQ(waiter->sleep({}, std::chrono::steady_clock::now() + Seconds(1)), port::Wake::nudge);
}

TEST_F(Unordered, ATicketThatItsUserDoesNotSayHimselfKeepsNobodyWaiting) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  WrittenTicket forged = written(7);
  forged.view.count = 4;                  // can never start while GPU 0 is held, so no grace ends
  forge(9, forged);
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"}))) << "at once";
  EXPECT_FALSE(store->waiting().at(0).vouched);
  EXPECT_EQ(store->waiting().at(0).user.substr(0, 1), "?");
  Fd word = say(9, forged);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-1"}))) << "he waits indeed";
  EXPECT_EQ(store->waiting().at(0).uid, ::geteuid());
  forged.view.count = 3;
  forge(9, forged);
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"}))) << "but not for that";
  forged.view.count = 4;
  forge(9, forged);
  word.reset();
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"}))) << "nor does he any more";
}

TEST_F(UnorderedWaiter, FilesThatAreNamedAsHisTakeNobodysWord) {
  for (unsigned i = 0; i < 200; ++i) {   // more than anybody opens, and empty
    const std::string name = fmt::format("/notes/{}-{:08x}-line", ::geteuid(), i);
    ASSERT_TRUE(open_at(AT_FDCWD, (directory + name).c_str(), O_WRONLY | O_CREAT));
  }
  EXPECT_TRUE(store->waiting().at(0).vouched);
}

TEST_F(Unordered, WhoIsPassedWithoutAWordIsHeardWhenHeHasOne) {
  auto store = open();
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  const WrittenTicket other = written(7);
  forge(9, other);
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto wanted = entry({"GPU-0"});
  auto ticket = store->enter(wanted);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_FALSE(std::get<model::Wait>(ticket->decision()).behind);
  WrittenTicket real = other;
  real.view.number = 8;
  Fd word = say(9, real);
  forge(9, real);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));   // hears it
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_EQ(std::get<model::Wait>(ticket->decision()).behind, 8u);
  word.reset();                                   // as init deletes it, or he has ended and somebody keeps his FIFO's lock
  ASSERT_EQ(ticket->sleep({}, std::nullopt), port::Wake::again);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_FALSE(std::get<model::Wait>(ticket->decision()).behind);
  word = say(9, real);                            // again, the same
  ASSERT_EQ(ticket->sleep({}, std::nullopt), port::Wake::again);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_EQ(std::get<model::Wait>(ticket->decision()).behind, 8u) << "passed, but not for good";
}

TEST_F(Unordered, ATicketThatIsAlteredAtEveryLookKeepsNobodyWaiting) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  std::uint64_t number = 1;
  forge(9, written(number));
  const auto wanted = entry({"GPU-1"});
  const model::Rule rule = fifo_rule(wanted);
  auto ticket = store->enter(wanted);
  EXPECT_TRUE(ticket->step([&](const auto& queue, auto mine, const auto& wants, auto now) {
    forge(9, written(++number));
    return rule(queue, mine, wants, now);
  }));
}

TEST_F(UnorderedWaiter, WhatAWaiterSaysStandsAgainWhereItWasDeleted) {
  const auto only = [&] { return store->waiting().at(0); };
  EXPECT_TRUE(only().vouched);
  for (const auto& file : std::filesystem::directory_iterator(directory + "/notes"))
    if (file.path().string().ends_with("-line")) std::filesystem::remove(file.path());
  EXPECT_FALSE(only().vouched);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  EXPECT_TRUE(only().vouched);
}

TEST_F(Unordered, APidThatIsUsedAgainIsNotAStoppedWaiter) {
  auto store = open();
  Child stopped([](Child& self) {
    self.say('u');
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_EQ(stopped.hear(), 'u');
  siginfo_t about{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(stopped.pid()), &about, WSTOPPED | WNOWAIT), 0);
  Fd turn = node("turn.9");
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  WrittenTicket old = written(7);
  old.pid = static_cast<std::uint32_t>(stopped.pid());
  old.start = 1;                          // of a process that has long ended
  forge(9, old);
  const Fd word = say(9, old);
  auto wanted = entry({"GPU-0"});
  auto ticket = store->enter(wanted);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted)));
  ASSERT_EQ(ticket->sleep({}, std::nullopt), port::Wake::again);
  EXPECT_FALSE(ticket->step(fifo_rule(wanted))) << "another process is stopped, not the waiter";
}

TEST_F(Unordered, ASharerWithoutABerthIsUnknownAndNotNobody) {
  auto store = open();
  Fd shared = node("gpu.GPU-0");
  ASSERT_EQ(::flock(shared.get(), LOCK_SH), 0);
  auto wanted = sharer({"GPU-0"}, 1000);
  std::vector<model::SlotHolder> holders;
  const auto look = [&](const model::QueueView& queue, auto, const auto&, auto) -> model::Decision {
    holders = queue.slots[0].holders;
    return model::Wait{};
  };
  auto ticket = store->enter(wanted);
  EXPECT_FALSE(ticket->step(look));
  ASSERT_EQ(ticket->sleep({}, std::nullopt), port::Wake::again);   // then every slot is tried, noted or not
  EXPECT_FALSE(ticket->step(look));
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_TRUE(holders[0].shared);
  EXPECT_FALSE(holders[0].memory_mib) << "of unknown size: the unit counts as full";
}

TEST_F(Unordered, ALaneIsWantedByLivingTicketsThatCameAfterIt) {
  auto store = open();
  Fd turn = node("turn.9");
  auto held = try_claim(*store, entry({"GPU-0"}));
  ASSERT_TRUE(held);
  forge(9, written(boot_clock_us()));
  EXPECT_TRUE(store->wanted_by(*held).empty()) << "a dead one";
  ASSERT_EQ(::flock(turn.get(), LOCK_EX), 0);
  EXPECT_EQ(store->wanted_by(*held), std::vector<pid_t>{::getpid()});
  forge(9, written(7));
  EXPECT_EQ(store->wanted_by(*held).size(), 1u) << "back where it stood before, and has given back what it had";
  held.reset();
  const auto ticket = store->enter(entry({"GPU-0"}));
  held = ticket->step([](auto&&...) -> model::Decision { return model::Take{{0}, {}}; });
  ASSERT_TRUE(held);
  EXPECT_TRUE(store->wanted_by(*held).empty()) << "it was passed: giving way to it again and again helps nobody";
  const port::Claim old(port::Claim::State::held, {.id = held->id(), .keys = held->keys(), .locks = {}, .passed = {7}});
  EXPECT_EQ(store->wanted_by(old).size(), 1u) << "once in a while it may be able to start";
}

TEST_F(Unordered, ManyThreadsLookWhileUnitsAreAdded) {
  auto store = open();
  std::atomic<bool> over = false;
  std::atomic<unsigned> looks = 0;
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i)
    lookers.emplace_back([&] {
      while (!over) {
        store->holdings();
        store->waiting();
        looks += store->about().directory.empty() ? 0 : 1;
      }
    });
  for (int i = 4; i < 60; ++i) store->enter(entry({"GPU-" + std::to_string(i)}));
  EXPECT_TRUE(eventually([&] { return looks > 0; }));
  over = true;
  for (std::thread& looker : lookers) looker.join();
}

}  // namespace
}  // namespace thole::host::claim_tests
