#include "plan/turn/turn.hpp"

#include <gtest/gtest.h>

#include "plan/turn/line.hpp"
#include "support/queues.hpp"

namespace thole::test {
namespace {

struct TurnCase {
  const char* rule;
  Scene scene;
  std::uint64_t mine;
  const char* decision;
};

void check_turns(const std::vector<TurnCase>& cases) {
  for (const TurnCase& c : cases) EXPECT_EQ(text(decide_for(c.scene, c.mine)), c.decision) << c.rule;
}

Scene scene(std::string_view slots) { return Scene(slots); }

TEST(Turn, FirstComeFirstServedWhereTheSetsOverlap) {
  check_turns({
      {"enough is free", scene("....").ticket("0123", 2), 1, "take 01"},
      {"a waiter in the queue that no longer waits for anything is only itself", scene(".").ticket("0", 1), 1, "take 0"},
      {"all or nothing", scene(".h").ticket("01", 2), 1, "wait watch 1"},
      {"the head watches what is claimed of its own", scene("hhh.").ticket("01", 1), 1, "wait watch 01"},
      {"behind an overlapping one, though mine is free", scene("h.").ticket("01", 2).ticket("1", 1), 2,
       "wait behind 1, at 2"},
      {"not behind one that wants others", scene("h.").ticket("0", 1).ticket("1", 1), 2, "take 1"},
      {"the nearest that overlaps", scene("hhh").ticket("01", 1).ticket("12", 1).ticket("0", 1), 3, "wait behind 1, at 2"},
      {"later tickets do not count", scene(".").ticket("0", 1).ticket("0", 1), 1, "take 0"},
      {"an unused slot is nobody's", scene(" .").ticket("01", 1), 1, "take 1"},
  });
}

TEST(Turn, ANewcomerStandsBehindEverybody) {
  const Scene waiting = scene("h.").ticket("01", 2);
  plan::Wants wants;
  wants.eligible = Scene::slots("1");
  EXPECT_EQ(text(plan::decide(waiting.queue, std::nullopt, wants, waiting.states, lowest(1), noon)), "wait behind 1, at 2");
  EXPECT_EQ(text(plan::decide(scene("..").queue, std::nullopt, wants, waiting.states, lowest(1), noon)), "take 1");
}

TEST(Turn, WhoCannotStartAnywayIsPassedOver) {
  check_turns({
      {"strangers hold what it needs", scene("f.").ticket("01", 2).ticket("1", 1), 2, "take 1, nudge 1"},
      {"the same for itself: it observes them", scene("f.").ticket("01", 2).ticket("1", 1), 1, "wait observe 0, nudge 2"},
      {"enough without the stranger: it is only waiting", scene("fh.").ticket("012", 2).ticket("2", 1), 2,
       "wait behind 1, at 2"},
      {"stopped", scene("..").ticket("01", 2).stopped().ticket("1", 1), 2, "take 1"},
      {"who trusts claims does not mind strangers", scene("f.").ticket("01", 2).trusting().ticket("1", 1), 2,
       "wait behind 1, at 2, which could start"},
      {"and starts beside them", scene("f.").ticket("01", 2).trusting(), 1, "take 01"},
      {"but a sick one is of no use to it", scene("s..").ticket("012", 2).trusting(), 1, "take 12"},
      {"and what needs it keeps nobody waiting", scene("s.").ticket("01", 2).trusting().ticket("1", 1), 2, "take 1, nudge 1"},
      {"it looks whether the sick one is well again", scene("sh").ticket("01", 2).trusting(), 1, "wait watch 1, observe 0"},
      {"a claimed slot with a stranger can never admit", scene("F.").ticket("01", 2).ticket("1", 1), 2, "take 1, nudge 1"},
  });
}

// What somebody asks for himself says nothing of the others' GPUs.
TEST(Turn, OthersAreJudgedByWhatTheyAskFor) {
  using model::Beside;
  check_turns({
      {"one needs more memory than another's GPU has", scene("h..").ticket("012", 3).ticket("1", 1).to_me("01"), 2,
       "wait behind 1, at 2"},
      {"one does not mind what another does", scene("f.").ticket("01", 2).ticket("1", 1).to_me("01"), 2, "take 1, nudge 1"},
      {"another does not mind it", scene("f.h").ticket("012", 3).beside(Beside::any).ticket("1", 1), 2,
       "wait behind 1, at 2"},
      {"while that keeps it waiting it could start for all that others see",
       scene("f.").ticket("01", 2).beside(Beside::any).ticket("1", 1), 2, "wait behind 1, at 2, which could start"},
      {"but for too much load",
       scene("f.h").loaded(0, 51).ticket("012", 3).beside(Beside::any).ticket("1", 1), 2, "take 1, nudge 1"},
      {"where it is his own", scene("u.h").ticket("012", 3).beside(Beside::mine).ticket("1", 1), 2, "wait behind 1, at 2"},
      {"where it may be", scene("x.h").ticket("012", 3).beside(Beside::mine).ticket("1", 1), 2, "wait behind 1, at 2"},
      {"where it is not", scene("f.h").ticket("012", 3).beside(Beside::mine).ticket("1", 1), 2, "take 1, nudge 1"},
      {"with enough beside, what is promised does not count on it",
       scene("f.ah").ticket("0123", 2).beside(Beside::any).ticket("1", 1, minutes(10)), 2, "take 1, nudge 1"},
      {"and not for longer", scene("f.ah").ticket("0123", 2).beside(Beside::any).ticket("1", 1, minutes(11)), 2,
       "wait behind 1, at 2, fits 10m"},
      {"of two that it might use by what it asks for, it is reckoned to use the one with less load",
       scene("ff.ah").loaded(1, 90).ticket("01234", 3).beside(Beside::any).ticket("2", 1, minutes(11)), 2,
       "wait behind 1, at 2"},
      {"it takes it when it may", scene("f.ah").ticket("0123", 2).beside(Beside::any).to_me("01"), 1, "take 01"},
      {"another needs memory that is in use", scene("..h").in_use(0, 9000).ticket("012", 3).needing(35000).ticket("1", 1), 2,
       "take 1, nudge 1"},
      {"or that may be its owner's", scene("h..").in_use(0, 9000).ticket("012", 3).needing(35000).ticket("1", 1), 2,
       "wait behind 1, at 2"},
      {"another could not share that one", scene(".").one_process(0).sharing("0", 1000).ticket("0", 1), 2, "take 0, nudge 1"},
  });
}

TEST(Turn, ImpossibleIsRefused) {
  check_turns({
      {"more than would do", scene("..").ticket("01", 3), 1, "never: 3 asked for, but only 2 would do"},
      {"a share larger than the GPU", scene(".").sharing("0", 40500), 1,
       "never: a share of 39.6 GiB (and 512 MiB for its context) is more than the GPU's memory"},
      {"one larger than all of it, too: no number may wrap round", scene(".").sharing("0", 51200), 1,
       "never: a share of 50.0 GiB (and 512 MiB for its context) is more than the GPU's memory"},
  });
  Scene unknown = scene(".").sharing("0", 100);
  unknown.states[0].memory_mib = 0;
  EXPECT_EQ(text(decide_for(unknown, 1)), "not here: the memory of the GPU cannot be read, so it cannot be shared");
}

TEST(Turn, PromisesAreLatestStarts) {
  check_turns({
      {"nobody declared an end", scene("h").ticket("0", 1), 1, "wait watch 0"},
      {"the end of the holder", scene("a").ticket("0", 1), 1, "wait watch 0, promise 10m"},
      {"the first of two that would do", scene("cb").ticket("01", 1), 1, "wait watch 01, promise 20m"},
      {"both for two", scene("cb").ticket("01", 2), 1, "wait watch 01, promise 30m"},
      {"after the one before, if that one declares", scene("a").ticket("0", 1, minutes(5)).ticket("0", 1), 2,
       "wait behind 1, at 2, promise 15m"},
      {"never behind one that does not", scene("a").ticket("0", 1).ticket("0", 1), 2, "wait behind 1, at 2"},
      {"beside the one before", scene("ab").ticket("01", 1).ticket("01", 1), 2, "wait behind 1, at 2, promise 20m"},
      {"whichever the one before will take", scene("aa").ticket("01", 1, minutes(5)).ticket("0", 1), 2,
       "wait behind 1, at 2, promise 15m"},
  });
}

TEST(Turn, BackfillMovesNoPromise) {
  check_turns({
      {"ends before", scene("a.").ticket("01", 2).ticket("01", 1, minutes(10)), 2, "take 1, nudge 1"},
      {"does not", scene("a.").ticket("01", 2).ticket("01", 1, minutes(11)), 2, "wait behind 1, at 2, fits 10m"},
      {"undeclared, but told what would do", scene("a.").ticket("01", 2).ticket("01", 1), 2,
       "wait behind 1, at 2, fits 10m"},
      {"on a GPU that the head will not need", scene("a..").ticket("01", 2).ticket("012", 1, minutes(500)), 2, "take 2"},
      {"the head needs two of three", scene("a..h").ticket("0123", 3).ticket("0123", 1, minutes(11)), 2,
       "wait behind 1, at 2, fits 10m"},
      {"and leaves one to spare", scene("aa...").ticket("01234", 4).ticket("01234", 1, minutes(500)), 2, "take 2, nudge 1"},
      {"it could start at once: nobody may be quicker", scene("a...").ticket("0123", 3).ticket("0123", 1, minutes(500)), 2,
       "wait behind 1, at 2, which could start, promise 10m"},
      {"no promise, no backfill", scene("h.").ticket("01", 2).ticket("01", 1, minutes(1)), 2, "wait behind 1, at 2"},
      {"but elsewhere", scene("h..").ticket("01", 2).ticket("12", 1, minutes(99)), 2, "take 2"},
      {"past two", scene("a.b").ticket("01", 2, minutes(1)).ticket("12", 2).ticket("1", 1, minutes(10)), 3, "take 1, nudge 1"},
      {"the first would be late", scene("a.b").ticket("01", 2, minutes(1)).ticket("12", 2).ticket("1", 1, minutes(15)), 3,
       "wait behind 2, at 3, fits 10m"},
      {"past one without a promise, while it is not its turn",
       scene("a.").ticket("01", 2).ticket("01", 1).ticket("01", 1, minutes(10)), 3, "take 1, nudge 1"},
      {"and no longer", scene("a.").ticket("01", 2).ticket("01", 1).ticket("01", 1, minutes(11)), 3,
       "wait behind 2, at 3, fits 10m"},
  });
}

// a: a claim that ends in 10 minutes.
TEST(Turn, WhoPassesIsToldWhomAndByWhenItIsToEnd) {
  Scene queue = scene("a.").ticket("01", 2).ticket("1", 1);
  queue.queue.tickets[1].time = std::chrono::minutes{5};
  const auto decision = decide_for(queue, 2);
  const auto* take = std::get_if<model::Take>(&decision);
  ASSERT_TRUE(take);
  EXPECT_EQ(take->ends_by, noon + std::chrono::minutes{10});
  ASSERT_EQ(take->passed.size(), 1u);
  EXPECT_EQ(take->passed.front().first, 1u);
  const auto first = decide_for(scene("..").ticket("01", 2), 1);
  EXPECT_FALSE(std::get<model::Take>(first).ends_by) << "nobody was passed";
}

TEST(Turn, BackfillTakesTheBestSlotsWhenTheyHarmNobody) {
  // Four of five are needed from 10m on: one may be kept, whichever it is.
  const Scene one = scene("aa...").ticket("01234", 4).ticket("01234", 1, minutes(500));
  const auto highest = [](const model::SlotSet& free) -> std::optional<std::vector<unsigned>> {
    for (unsigned s = model::max_slots; s-- > 0;)
      if (free[s]) return std::vector{s};
    return std::nullopt;
  };
  const model::TicketView& mine = one.queue.tickets[1];
  EXPECT_EQ(text(plan::decide(one.queue, 2, mine, one.states, highest, noon)), "take 4, nudge 1");
}

TEST(Turn, WhoWaitsWakesThoseWhoMayStart) {
  check_turns({
      {"a short one", scene("a.").ticket("01", 2).ticket("01", 1, minutes(5)), 1, "wait watch 0, nudge 2, promise 10m"},
      {"not a long one", scene("a.").ticket("01", 2).ticket("01", 1, minutes(15)), 1, "wait watch 0, promise 10m"},
      {"not an undeclared one", scene("a.").ticket("01", 2).ticket("01", 1), 1, "wait watch 0, promise 10m"},
      {"not a stopped one", scene("a.").ticket("01", 2).ticket("01", 1, minutes(5)).stopped(), 1, "wait watch 0, promise 10m"},
      {"two short ones for one opening: they settle it",
       scene("a.").ticket("01", 2).ticket("1", 1, minutes(5)).ticket("1", 1, minutes(5)), 1,
       "wait watch 0, nudge 2,3, promise 10m"},
  });
}

TEST(Turn, OfThoseWhoMayPassWhoDeclaredLeastGoesFirst) {
  // Behind one that wants all GPUs: what each of those behind it declares, in minutes.
  const auto behind = [](std::string_view slots, const std::vector<long>& declared) {
    Scene result(slots);
    const std::string all = std::string("012").substr(0, slots.size());
    result.ticket(all, static_cast<unsigned>(slots.size()));
    for (const long time : declared) result.ticket(all, 1, minutes(time));
    return result;
  };
  check_turns({
      {"it wakes the shorter one", behind("a.", {9, 5}), 2, "wait behind 3 that declared less, at 2, follow 1, nudge 3"},
      {"which starts", behind("a.", {9, 5}), 3, "take 1, nudge 1"},
      {"the same is declared: who came first", behind("a.", {5, 5}), 2, "take 1, nudge 1"},
      {"and the other waits for it", behind("a.", {5, 5}), 3, "wait behind 2 that declared less, at 3, nudge 2"},
      {"both fit, and the shorter one is told", behind("a..", {9, 5}), 2, "take 1, nudge 1,3"},
      {"of three only two do", behind("a..", {9, 5, 7}), 2,
       "wait behind 3 that declared less, at 2, follow 1, nudge 3,4"},
      {"the shorter one may not pass: it needs more than is free", behind("a.", {9}).ticket("01", 2, minutes(5)), 2,
       "take 1, nudge 1"},
      {"is frozen, and known to be", behind("a.", {9, 5}).stopped(), 2, "take 1, nudge 1"},
      {"holds up nobody, for it leaves some to others",
       scene("a..").ticket("012", 3).ticket("012", 2, minutes(9)).ticket("012", 1, minutes(5)).leaving(1), 2,
       "take 12, nudge 1"},
      {"wants others", scene("a..").ticket("012", 3).ticket("01", 1, minutes(9)).ticket("2", 1, minutes(5)), 2,
       "take 1, nudge 1,3"},
      {"whose turn it is waits for nobody who declared less",
       scene("..").ticket("01", 2, minutes(9)).ticket("01", 1, minutes(5)), 1, "take 01"},
  });
}

TEST(Turn, WhoHasWaitedLongEnoughYieldsToNobody) {
  Scene impatient = scene("a.").ticket("01", 2).ticket("01", 1, minutes(9)).ticket("01", 1, minutes(5));
  impatient.queue.yields = false;
  EXPECT_EQ(text(decide_for(impatient, 2)), "take 1, nudge 1");
}

// It may pass an earlier one that may pass too: what they are promised stays.
TEST(Turn, WhoGoesFirstMovesNoPromise) {
  Scene before = scene("a..").ticket("012", 3, minutes(5)).ticket("012", 2, minutes(10)).ticket("012", 2, minutes(3));
  const auto promised = plan::promises(before.queue, before.states, noon);
  ASSERT_EQ(text(decide_for(before, 2)), "wait behind 3 that declared less, at 2, follow 1, nudge 3, promise 15m");
  ASSERT_EQ(text(decide_for(before, 3)), "take 12, nudge 1");
  before.queue.tickets.pop_back();
  for (const unsigned s : {1u, 2u}) before.queue.slots[s].holders.push_back({1000, false, false, {}, noon + minutes(3)});
  const auto after = plan::promises(before.queue, before.states, noon);
  EXPECT_EQ(after, std::vector(promised.begin(), promised.begin() + 2));
}

// What is promised may lie later than a turn that has come, or count on a claim that is overdue: neither is a reason to pass.
TEST(Turn, WhoseTurnHasComeIsPassedByNobodyWhoTakesItFromHim) {
  const auto overdue = [](unsigned wanted) {
    Scene result = scene(".h.").ticket("012", wanted).ticket("012", 1, minutes(5));
    result.queue.slots[1].holders[0].until = noon - minutes(1);
    return result;
  };
  const auto sharers = [](std::uint64_t held) {
    Scene result = scene("..").sharer(0, held, minutes(34)).sharer(1, held, minutes(34));
    result.sharing("01", 19000, minutes(60)).queue.tickets.back().count = 2;
    result.sharing("01", 23000, minutes(9)).queue.tickets.back().count = 2;
    return result;
  };
  check_turns({
      {"of three GPUs one is overdue, and the first wants two", overdue(2), 1, "take 02"},
      {"so that the second waits for it", overdue(2), 2, "wait behind 1, at 2, which could start, promise 0s"},
      {"but for one it leaves enough", overdue(1), 2, "take 0, nudge 1"},
      {"sharers of two GPUs", sharers(15000), 1, "take 01"},
      {"promised the end of the holders, for safety", sharers(15000), 2,
       "wait behind 1, at 2, which could start, promise 1h34m"},
  });
}

TEST(Turn, EveryReleaseHasOneWhoListens) {
  check_turns({
      {"what the one before wants is its business", scene("hhh").ticket("01", 1).ticket("12", 1), 2,
       "wait behind 1, at 2, watch 2"},
      {"who starts out of turn is watched from then on", scene("b.").ticket("01", 2).ticket("1", 1, minutes(1)), 2,
       "take 1, nudge 1"},
      {"the next in line wakes by itself", scene(".").ticket("0", 1).ticket("0", 1), 1, "take 0"},
      {"a ticket that nobody between overlaps is followed", scene("hh").ticket("0", 1).ticket("1", 1).ticket("01", 1), 3,
       "wait behind 2, at 3, follow 1, watch 0"},
      {"a stopped one between is no one to rely on",
       scene("hhh").ticket("0", 1).ticket("1", 1).ticket("0", 1).stopped().ticket("01", 1), 4,
       "wait behind 2, at 3, follow 3,1, watch 0"},
      {"who stands between for one slot does not for another",
       scene("...h").ticket("3", 1).ticket("0123", 3, minutes(9)).ticket("1", 1).ticket("13", 1, minutes(2)), 4,
       "wait behind 3, at 4, follow 2, watch 3"},
  });
}

TEST(Turn, WhoLeavesSomeToOthersKeepsThemFreeAndGivesWay) {
  check_turns({
      {"three of four, one is left", scene("hh..").ticket("0123", 1).leaving(1), 1, "take 2"},
      {"the last is left", scene("hhh.").ticket("0123", 1).leaving(1), 1, "wait watch 012"},
      {"which others take at once", scene("hhh.").ticket("0123", 1).leaving(1).ticket("0123", 1), 2, "take 3, nudge 1"},
      {"in its turn it goes first", scene("hh..").ticket("0123", 1).leaving(1).ticket("0123", 2), 2,
       "wait behind 1, at 2, which could start, fits 366d"},
      {"it keeps nobody behind who is himself kept by another", scene("hh..").ticket("01", 1).ticket("0123", 1).leaving(1)
       .ticket("23", 1), 3, "take 2, nudge 2"},
      {"others are promised less by what it may take first", scene("ab.").ticket("012", 1).leaving(2).ticket("012", 2), 2,
       "wait follow 1, watch 01, promise 20m"},
      {"a sharer may go where one is", scene("h.").as(7).sharing("01", 100).leaving(1), 1, "wait watch 0"},
      {"more than would do", scene("..").ticket("01", 1).leaving(2), 1,
       "never: 1 asked for and 2 left to others, but only 2 would do"},
  });
}

TEST(Turn, WhoWaitsIsToldWhetherLaterOnesNeedNotWaitForIt) {
  const auto is_passed_over = [](const Scene& scene, std::uint64_t number) {
    return std::get<model::Wait>(decide_for(scene, number)).passed_over;
  };
  EXPECT_TRUE(is_passed_over(scene("hhh.").ticket("0123", 1).leaving(1), 1)) << "it leaves some to others";
  EXPECT_TRUE(is_passed_over(scene("f.").ticket("0", 1), 1)) << "a stranger has what it wants";
  EXPECT_FALSE(is_passed_over(scene("hhhh").ticket("0123", 1), 1));
  EXPECT_FALSE(is_passed_over(scene("hhh.").ticket("0123", 4).ticket("0123", 1), 2));
}

TEST(Turn, FourOfEightGibibytesShareAGpuOfForty) {
  Scene full = scene(".");
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(text(decide_for(Scene(full).sharing("0", 8192), 1)), "take 0") << n;
    full.sharer(0, 8192);
  }
  EXPECT_EQ(text(decide_for(Scene(full).sharing("0", 8192), 1)), "wait watch 0");
  EXPECT_EQ(text(decide_for(Scene(full).sharing("0", 4096), 1)), "take 0") << "a smaller one still fits";
}

TEST(Turn, AShareFitsToTheLastMebibyteAndNoFurther) {
  // A share costs its budget and 512 MiB; the GPU has 40,960.
  const auto asks = [](std::uint64_t held, std::uint64_t wanted) {
    return text(decide_for(scene(".").sharer(0, held).sharing("0", wanted), 1));
  };
  EXPECT_EQ(asks(20000, 40960 - 20000 - 2 * 512), "take 0");
  EXPECT_EQ(asks(20000, 40960 - 20000 - 2 * 512 + 1), "wait watch 0");
  EXPECT_EQ(asks(40960 - 512, 1), "wait watch 0") << "nothing is left";
  EXPECT_EQ(asks(40960 - 511, 1), "wait watch 0") << "less than a context is left: no number may wrap round";
  plan::Wants huge = scene(".").sharing("0", 1).queue.tickets[0];
  huge.memory_mib = ~std::uint64_t{0} - 100;
  EXPECT_EQ(plan::openings_for(huge, {}, {.usable = true, .memory_mib = 40960, .unclaimed_mib = 0, .sick = false}), 0u);
}

TEST(Turn, SharersOfOneUserOrOfThoseWhoAllAgreed) {
  struct SharingCase { const char* rule; std::uint32_t uid; bool any; bool holders_any; bool admitted; };
  for (const SharingCase& c : std::vector<SharingCase>{{"mine", 1000, false, false, true},
                                                       {"a stranger's", 7, false, false, false},
                                                       {"a stranger's who agreed, I did not", 7, false, true, false},
                                                       {"I agreed, they did not", 7, true, false, false},
                                                       {"all agreed", 7, true, true, true}}) {
    Scene shared = scene(".").sharer(0, 1000, {}, c.holders_any);
    const std::string decision = text(decide_for(shared.as(c.uid).sharing("0", 1000, {}, c.any), 1));
    EXPECT_EQ(decision, c.admitted ? "take 0" : "wait watch 0") << c.rule;
  }
}

TEST(Turn, SharersPackAndExclusiveNeverMixes) {
  check_turns({
      {"beside my own rather than on an empty one", scene("..").sharer(1, 1000).sharing("01", 1000), 1, "take 1"},
      {"not beside strangers if mine are there",
       scene("...").as(7).sharer(0, 1000, {}, true).as(1000).sharer(2, 1000, {}, true).sharing("012", 1000, {}, true), 1,
       "take 2"},
      {"an exclusive one waits for the last sharer", scene(".").sharer(0, 1000).ticket("0", 1), 1, "wait watch 0"},
      {"a sharer does not join an exclusive holder", scene("h").sharing("0", 1000), 1, "wait watch 0"},
      {"a missing budget counts as full", scene(".").sharer(0, std::nullopt).sharing("0", 1000), 1, "wait watch 0"},
      {"so does an implausible one", scene(".").sharer(0, ~std::uint64_t{0}).sharing("0", 1000), 1, "wait watch 0"},
      {"the promise counts openings, not GPUs",
       scene(".")
           .sharer(0, 16000, minutes(10))
           .sharer(0, 16000, minutes(20))
           .sharing("0", 30000, minutes(5))
           .sharing("0", 8000),
       2, "wait behind 1, at 2, promise 25m"},
      {"and two that fit together are promised the same",
       scene(".").sharer(0, 16000, minutes(10)).sharer(0, 16000, minutes(20)).sharing("0", 8000, minutes(5)).sharing("0", 8000),
       2, "wait behind 1, at 2, promise 10m"},
  });
}

TEST(Turn, MemoryInUseWithoutAClaimIsCharged) {
  Scene beside = scene(".").sharer(0, 8192).sharing("0", 16000);
  beside.states[0].unclaimed_mib = 20000;
  EXPECT_EQ(text(decide_for(beside, 1)), "wait watch 0, observe 0");
  beside.states[0].unclaimed_mib = 10000;
  EXPECT_EQ(text(decide_for(beside, 1)), "take 0");
}

TEST(Turn, SixteenSharersAtMost) {
  Scene crowd = scene(".");
  for (int n = 0; n < 16; ++n) crowd.sharer(0, 100);
  EXPECT_EQ(text(decide_for(crowd.sharing("0", 100), 1)), "wait watch 0");
}

TEST(Turn, ForgedTimesDoNotOverflow) {
  const Scene forged =
      scene("a.").ticket("01", 2, Seconds::max()).ticket("01", 1, Seconds::max()).ticket("01", 1, Seconds::min());
  EXPECT_EQ(text(decide_for(forged, 2)), "wait behind 1, at 2, nudge 3, promise 366d, fits 10m");
  EXPECT_EQ(text(decide_for(forged, 3)), "take 1, nudge 1") << "a negative time is none at all";
}

}  // namespace
}  // namespace thole::test
