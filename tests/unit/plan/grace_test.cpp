#include "plan/turn/grace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/queues.hpp"

namespace thole::test {
namespace {

// The looks of one waiter at a queue that others change, on a clock of its own.
struct Waiter {
  Scene& scene;
  std::uint64_t mine;
  SteadyTime now{};
  plan::Grace grace{};
  unsigned nudges = 0;

  model::Decision look() {
    const auto& tickets = scene.queue.tickets;
    const auto me = std::find_if(tickets.begin(), tickets.end(), [&](const auto& ticket) { return ticket.number == mine; });
    auto decision = grace.decide(scene.queue, mine, now, [&](const model::QueueView& shown) {
      return plan::decide(shown, mine, *me, scene.states, lowest(me->count), noon);
    });
    if (const auto* wait = std::get_if<model::Wait>(&decision)) nudges += static_cast<unsigned>(wait->nudge.size());
    return decision;
  }

  // How long until it starts; each look follows as the decision before says, or after 2 s.
  Millis starts(const std::function<void(Millis)>& between = {}) {
    const SteadyTime begin = now;
    while (now - begin < std::chrono::hours(1)) {
      const model::Decision decision = look();
      if (std::holds_alternative<model::Take>(decision)) break;
      now += std::get<model::Wait>(decision).look_again.value_or(Millis{2000});
      if (between) between(std::chrono::duration_cast<Millis>(now - begin));
    }
    return std::chrono::duration_cast<Millis>(now - begin);
  }
};

// N waiters that want any of four idle GPUs and never start; the last one is real.
Scene behind_forged(unsigned n) {
  Scene scene("....");
  for (unsigned i = 0; i <= n; ++i) scene.ticket("0123", 1);
  return scene;
}

TEST(Grace, AnyNumberOfWaitersThatDoNotStartCostsOneGrace) {
  for (const unsigned n : {1u, 2u, 20u, 1000u}) {
    Scene scene = behind_forged(n);
    Waiter waiter{scene, n + 1};
    const Millis took = waiter.starts();
    EXPECT_GE(took, plan::Grace::patience) << n;
    EXPECT_LE(took, (n == 1 ? plan::Grace::patience : plan::Grace::patience_behind) + plan::Grace::latest) << n;
    EXPECT_EQ(waiter.nudges, n == 1 ? 1u : 2u) << "only who stands first can have missed his moment";
  }
}

TEST(Grace, WhoCannotStartIsNotTimed) {
  Scene scene = Scene("h...").ticket("0123", 4).ticket("0123", 1);
  Waiter waiter{scene, 2};
  for (int i = 0; i < 100; ++i, waiter.now += Seconds(2))
    ASSERT_TRUE(std::holds_alternative<model::Wait>(waiter.look())) << "a wide request is not starved";
}

TEST(Grace, TicketsThatAppearBeforeMeLaterDoNotGoBeforeMe) {
  Scene scene = Scene("h").ticket("0", 1);
  scene.queue.tickets[0].number = 100;
  Waiter waiter{scene, 100};
  EXPECT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
  model::TicketView forged = scene.queue.tickets[0];
  for (std::uint64_t number = 1; number < 50; ++number) {   // a new one for every look
    forged.number = number;
    scene.queue.tickets.insert(scene.queue.tickets.begin(), forged);
    scene.queue.slots[0].holders.clear();
    ASSERT_TRUE(std::holds_alternative<model::Take>(waiter.look())) << number;
    scene.queue.tickets.erase(scene.queue.tickets.begin());
  }
}

TEST(Grace, PulsesOfRealClaimsStretchTheGraceAndDoNotRenewIt) {
  Scene scene = behind_forged(1);
  const auto held = Scene("hhhh").queue.slots;
  const auto free = scene.queue.slots;
  Waiter waiter{scene, 2};
  unsigned looks = 0;
  const Millis took = waiter.starts([&](Millis) { scene.queue.slots = ++looks % 4 == 3 ? held : free; });
  EXPECT_GE(took, plan::Grace::patience);
  EXPECT_LE(took, 5 * plan::Grace::patience);
}

TEST(Grace, AHeadThatLeavesJustInTimeGainsAFewLooksForTheRest) {
  constexpr unsigned n = 30;
  Scene scene = behind_forged(n);
  Waiter waiter{scene, n + 1};
  const Millis took = waiter.starts([&](Millis) {   // before every look the first one goes
    if (scene.queue.tickets.size() > 1) scene.queue.tickets.erase(scene.queue.tickets.begin());
  });
  EXPECT_LE(took, n * plan::Grace::latest + plan::Grace::patience_behind);
}

TEST(Grace, AnHonestWaiterBehindAForgedOneHasTheTimeToPassItHimself) {
  Scene scene = Scene(".").ticket("0", 1).ticket("0", 1).ticket("0", 1);
  Waiter second{scene, 2}, third{scene, 3};
  for (;;) {
    third.now = second.now;
    ASSERT_TRUE(std::holds_alternative<model::Wait>(third.look())) << "the order of the honest is kept";
    if (std::holds_alternative<model::Take>(second.look())) break;
    second.now += Millis{500};
  }
  EXPECT_LE(second.now - SteadyTime{}, Millis{3500});
}

TEST(Grace, ALineThatMovesIsNotTimed) {
  constexpr unsigned n = 100;
  Scene scene = Scene(".");
  for (unsigned i = 0; i <= n; ++i) scene.ticket("0", 1);
  Waiter last{scene, n + 1};
  for (unsigned i = 0; i + 1 < n; ++i, last.now += Millis{400}) {   // each starts and ends between two looks
    ASSERT_TRUE(std::holds_alternative<model::Wait>(last.look()));
    scene.queue.tickets.erase(scene.queue.tickets.begin());
  }
}

// By writing over them at each look of mine: then they come back.
TEST(Grace, WhoMakesAnotherStandFirstAtEveryLookGainsLittleByIt) {
  for (const unsigned n : {2u, 8u, 40u}) {
    Scene scene = behind_forged(n);
    const auto all = scene.queue.tickets;
    Waiter waiter{scene, n + 1};
    unsigned looks = 0;
    const Millis took = waiter.starts([&](Millis) {   // the first few are away, one more each time, and then all are back
      scene.queue.tickets = all;
      scene.queue.tickets.erase(scene.queue.tickets.begin(), scene.queue.tickets.begin() + ++looks % (n / 2 + 1));
    });
    EXPECT_LE(took, (n / 2 + 2) * plan::Grace::latest + 2 * plan::Grace::patience_behind) << n;
  }
}

TEST(Grace, WhoIsGoneAtOneLookAndBackAtTheNextKeepsHisRights) {
  Scene scene = Scene("hhhh").ticket("0123", 2).ticket("0123", 1);
  const auto all = scene.queue.tickets;
  Waiter waiter{scene, 2};
  waiter.look();
  scene.queue.tickets.erase(scene.queue.tickets.begin());
  waiter.look();
  scene.queue.tickets = all;
  waiter.look();
  scene.queue.slots[0].holders.clear();
  EXPECT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
}

TEST(Grace, ALineThatIsRenewedWithoutEndIsPassedAfterAMinute) {
  constexpr unsigned n = 1000;
  Scene scene = behind_forged(n);
  Waiter waiter{scene, n + 1};
  const Millis took = waiter.starts([&](Millis) {
    if (scene.queue.tickets.size() > 1) scene.queue.tickets.erase(scene.queue.tickets.begin());
  });
  EXPECT_LE(took, plan::Grace::patience_with_all + 2 * plan::Grace::latest);
}

TEST(Grace, AnothersTicketWithTheNumberOfOneBeforeMeCostsHimNothing) {
  Scene scene = Scene("..h").ticket("012", 3).ticket("012", 1);
  Waiter waiter{scene, 2};
  ASSERT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
  model::TicketView forged = scene.queue.tickets[0];
  forged.count = 1;
  forged.uid = 4711;
  scene.queue.tickets.insert(scene.queue.tickets.begin(), forged);
  for (unsigned i = 0; i < 40; ++i, waiter.now += Millis{500})
    ASSERT_TRUE(std::holds_alternative<model::Wait>(waiter.look())) << i;
}

// He wakes me again and again, and takes all for the moment in which I look: what he knows beforehand is no evidence.
TEST(Grace, LooksForWhichOthersHaveWokenMeNeitherCountNorBreakTheCount) {
  Scene scene = behind_forged(1);
  const auto held = Scene("hhhh").queue.slots;
  const auto free = scene.queue.slots;
  Waiter waiter{scene, 2};
  const Millis took = waiter.starts([&](Millis) {
    scene.queue.by_clock = false;
    for (unsigned i = 0; i < 4; ++i) {
      scene.queue.slots = i % 2 == 0 ? held : free;
      const model::Decision woken = waiter.look();
      ASSERT_TRUE(std::holds_alternative<model::Wait>(woken)) << "no time passes by being woken";
    }
    scene.queue.by_clock = true;
  });
  EXPECT_GE(took, plan::Grace::patience);
  EXPECT_LE(took, plan::Grace::patience + 2 * plan::Grace::latest);
}

TEST(Grace, WhoSaysHimselfThatHeStoodBeforeMeWhenIJoinedGoesBeforeMe) {
  Scene scene = Scene("h").ticket("0", 1).ticket("0", 1);
  const model::TicketView first = scene.queue.tickets.front();
  scene.queue.tickets.erase(scene.queue.tickets.begin());     // it has been written over
  Waiter waiter{scene, 2};
  ASSERT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
  scene.queue.also_in_line = {{first.number, first.uid}};
  scene.queue.tickets.insert(scene.queue.tickets.begin(), first);
  scene.queue.slots[0].holders.clear();
  EXPECT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
  EXPECT_LE(waiter.starts(), plan::Grace::patience + 2 * plan::Grace::latest) << "and has his time like others";
}

// One that may pass a wide one, and N behind it that declared less, and never start.
Scene before_shorter(unsigned n) {
  Scene scene = Scene("a.").ticket("01", 2).ticket("01", 1, minutes(9));
  for (unsigned i = 0; i < n; ++i) scene.ticket("01", 1, minutes(1));
  return scene;
}

TEST(Grace, AnyNumberOfThoseWhoDeclaredLessAndDoNotStartCostsOneGrace) {
  for (const unsigned n : {1u, 2u, 20u, 300u}) {
    Scene scene = before_shorter(n);
    Waiter waiter{scene, 2};
    const Millis took = waiter.starts();
    EXPECT_GE(took, plan::Grace::patience) << n;
    EXPECT_LE(took, (n == 1 ? plan::Grace::patience : plan::Grace::patience_behind) + plan::Grace::latest) << n;
  }
}

// Whoever comes when the grace of the one before him is over has none of his own.
TEST(Grace, ThoseWhoDeclaredLessAndComeOneAfterTheOtherCostOneGraceToo) {
  Scene scene = before_shorter(1);
  Waiter waiter{scene, 2};
  const Millis took = waiter.starts([&](Millis) { ++scene.queue.tickets.back().number; });
  EXPECT_LE(took, plan::Grace::patience + plan::Grace::latest);
}

TEST(Grace, PulsesOfRealClaimsDoNotStretchTheGraceOfThoseWhoDeclaredLess) {
  Scene scene = before_shorter(1);
  const auto free = scene.queue.slots, held = Scene("ah").queue.slots;
  Waiter waiter{scene, 2};
  unsigned looks = 0;
  const Millis took = waiter.starts([&](Millis) { scene.queue.slots = ++looks % 2 == 1 ? held : free; });   // every other look
  EXPECT_LE(took, 3 * plan::Grace::patience);
}

TEST(Grace, WhoIsWokenByOthersGivesThoseWhoDeclaredLessNoLessTime) {
  Scene scene = before_shorter(1);
  Waiter waiter{scene, 2};
  waiter.look();
  scene.queue.by_clock = false;
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
    waiter.now += Millis{100};
  }
}

TEST(Grace, AShorterOneBehindAFrozenOneHasTheTimeToPassItHimself) {
  Scene scene = Scene("a.").ticket("01", 2).ticket("01", 1, minutes(9)).ticket("01", 1, minutes(5)).ticket("01", 1, minutes(1));
  Waiter longer{scene, 2}, shorter{scene, 3};
  for (;;) {
    longer.now = shorter.now;
    ASSERT_TRUE(std::holds_alternative<model::Wait>(longer.look())) << "the order of the honest is kept";
    if (std::holds_alternative<model::Take>(shorter.look())) break;
    shorter.now += Millis{500};
  }
  EXPECT_LE(shorter.now - SteadyTime{}, plan::Grace::patience + plan::Grace::latest);
}

TEST(Grace, AnIntervalInWhichISleptDoesNotCountAsTheirs) {
  Scene scene = behind_forged(1);
  Waiter waiter{scene, 2};
  waiter.look();
  waiter.now += std::chrono::hours(1);   // I was stopped
  EXPECT_TRUE(std::holds_alternative<model::Wait>(waiter.look()));
}

TEST(Grace, WithoutATicketThoseWhoComeLaterDoNotGoBeforeMe) {
  Scene scene = Scene("h");
  plan::Wants wants;
  wants.eligible = Scene::slots("0");
  plan::Grace grace;
  const auto look = [&] {
    return grace.decide(scene.queue, std::nullopt, SteadyTime{}, [&](const model::QueueView& shown) {
      return plan::decide(shown, std::nullopt, wants, scene.states, lowest(1), noon);
    });
  };
  EXPECT_TRUE(std::holds_alternative<model::Wait>(look()));
  scene.ticket("0", 1);
  scene.queue.slots[0].holders.clear();
  EXPECT_TRUE(std::holds_alternative<model::Take>(look()));
}

}  // namespace
}  // namespace thole::test
