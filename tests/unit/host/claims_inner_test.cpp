// A claim is a smaller machine: those who claim inside it get distinct units of it, by the same protocol.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <set>

#include "host/claims/inner.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct Inner : ClaimStoreTest {
  std::unique_ptr<port::ClaimStore> machine() {
    return open_claim_store(options(StateLocation::named(directory)));
  }
  bool has_directory(const std::string& id) { return std::filesystem::exists(folder.path + "/personal/" + id); }
};

TEST_F(Inner, AClaimByItselfMakesNoFiles) {
  auto store = machine();
  auto outer = try_claim(*store, entry(units, 2));
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/personal"));
}

TEST_F(Inner, TwoInsideGetDistinctUnitsAndAThirdWaitsForThem) {
  auto store = machine();
  auto outer = try_claim(*store, entry(units, 2));
  auto inside = store->within(outer->id()), beside = store->within(outer->id());
  auto first = try_claim(*inside, entry(outer->keys())), second = try_claim(*beside, entry(outer->keys()));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->keys(), second->keys());
  auto third = inside->enter(entry(outer->keys()));
  EXPECT_FALSE(third->step(fifo_rule(entry(outer->keys()))));
  first.reset();
  EXPECT_EQ(third->sleep({}, std::nullopt), port::Wake::release);
  EXPECT_TRUE(third->step(fifo_rule(entry(outer->keys()))));
  EXPECT_EQ(inside->about().kind, "private");
}

TEST_F(Inner, TheDirectoryOfADeadClaimIsSweptThatOfALivingOneIsNot) {
  auto store = machine();
  auto dead = entry({"GPU-0"}), living = entry({"GPU-1"}), next = entry({"GPU-2"});
  dead.id = "00000000000000d1";
  living.id = "00000000000000a1";
  next.id = "00000000000000a2";
  auto first = try_claim(*store, dead), second = try_claim(*store, living), third = try_claim(*store, next);
  store->within(dead.id);
  store->within(living.id);
  EXPECT_TRUE(has_directory(dead.id) && has_directory(living.id));
  first.reset();
  store->within(next.id);
  EXPECT_FALSE(has_directory(dead.id));
  EXPECT_TRUE(has_directory(living.id) && has_directory(next.id));
}

TEST_F(Inner, TheClaimsOfAnotherMachineAreNotSwept) {
  auto store = machine();
  auto other = open_claim_store(options(StateLocation::named(folder.path + "/other")));
  auto there = entry({"GPU-0"}), here = entry({"GPU-0"});
  there.id = "00000000000000b1";
  here.id = "00000000000000b2";
  auto first = try_claim(*other, there), second = try_claim(*store, here);
  other->within(there.id);
  store->within(here.id);
  EXPECT_TRUE(has_directory(there.id));
  first.reset();
  std::filesystem::remove_all(folder.path + "/other");
  store->within(here.id);
  EXPECT_FALSE(has_directory(there.id)) << "but when the machine itself is gone";
}

TEST_F(Inner, NothingIsSweptWhileItsClaimLivesOrSomebodyInsideLivesOn) {
  auto store = machine();
  auto outer = entry({"GPU-0"}), next = entry({"GPU-1"});
  outer.id = "00000000000000c1";
  next.id = "00000000000000c2";
  auto first = try_claim(*store, outer), second = try_claim(*store, next);
  auto within_first = try_claim(*store->within(outer.id), entry({"GPU-0"}));
  ASSERT_EQ(::truncate((directory + "/who").c_str(), 0), 0);
  store->within(next.id);
  EXPECT_TRUE(has_directory(outer.id)) << "whatever strangers do to what everybody may write";
  first.reset();
  second.reset();
  auto third = try_claim(*store, next);
  store->within(next.id);
  EXPECT_TRUE(has_directory(outer.id)) << "its claim is over, but a claim inside is not";
  within_first.reset();
  store->within(next.id);
  EXPECT_FALSE(has_directory(outer.id));
}

// As from a container that has the personal directory of the host, and not the directory that its claims are held in.
TEST_F(Inner, NothingOfALivingClaimIsSweptWhereTheDirectoryThatItIsHeldInIsNotSeen) {
  auto other = options(StateLocation::named(folder.path + "/other"));
  const std::string noted = "00000000000000c3", claimed = "00000000000000c4";
  ASSERT_EQ(::mkdir(other.location.path.c_str(), 0700), 0);
  Note of_claim;
  of_claim.id = noted;
  std::optional<Fd> note = note_in_own_directory(other, open_state_dir(other.location), of_claim, {}, 2);
  ASSERT_TRUE(*note);
  auto there = entry({"GPU-0"});
  there.id = claimed;
  auto store = open_claim_store(other);
  auto outer = try_claim(*store, there);
  auto within = try_claim(*store->within(claimed), entry({"GPU-0"}));
  std::filesystem::rename(folder.path + "/other", folder.path + "/hidden");
  auto here = machine();
  auto mine = try_claim(*here, entry({"GPU-1"}));
  here->within(mine->id());
  EXPECT_TRUE(has_directory(noted) && has_directory(claimed));
  note.reset();
  within.reset();
  here->within(mine->id());
  EXPECT_FALSE(has_directory(noted) || has_directory(claimed));
}

TEST_F(Inner, ADirectoryWhoseMakerWasKilledBeforeHeMarkedItIsSweptLikeAnyOther) {
  auto store = machine();
  auto wanted = entry({"GPU-0"}), next = entry({"GPU-1"});
  next.id = "00000000000000e2";
  auto first = try_claim(*store, wanted), second = try_claim(*store, next);
  store->within(wanted.id);
  ASSERT_EQ(::truncate((folder.path + "/personal/" + wanted.id + "/outer").c_str(), 0), 0);
  store->within(wanted.id);
  first.reset();
  store->within(next.id);
  EXPECT_FALSE(has_directory(wanted.id));
}

TEST_F(Inner, WhatAKilledMakerLeftUnmarkedIsSweptAtOnce) {
  auto store = machine();
  auto held = try_claim(*store, entry({"GPU-0"}));
  const std::string personal = folder.path + "/personal/";
  ASSERT_EQ(::mkdir(personal.substr(0, personal.size() - 1).c_str(), 0700), 0);
  for (const char* left : {"00000000000000e1", "00000000000000e2", "00000000000000e3", "00000000000000e4"})
    ASSERT_EQ(::mkdir((personal + left).c_str(), 0700), 0);
  for (const char* file : {"00000000000000e2/outer", "00000000000000e3/control", "00000000000000e4/control",
                           "00000000000000e4/outer"})
    ASSERT_TRUE(open_at(AT_FDCWD, (personal + file).c_str(), O_WRONLY | O_CREAT, 0600));
  store->within(held->id());
  for (const char* left : {"00000000000000e1", "00000000000000e2", "00000000000000e3", "00000000000000e4"})
    EXPECT_FALSE(has_directory(left)) << left;
  EXPECT_TRUE(has_directory(held->id()));
}

TEST_F(Inner, NoSweepTakesADirectoryThatSomebodyIsMakingNorOneThatHoldsMore) {
  auto store = machine();
  auto held = try_claim(*store, entry({"GPU-0"}));
  const std::string personal = folder.path + "/personal", making = personal + "/00000000000000e5";
  ASSERT_EQ(::mkdir(personal.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir(making.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((personal + "/00000000000000e6").c_str(), 0700), 0);
  ASSERT_TRUE(open_at(AT_FDCWD, (personal + "/00000000000000e6/mine").c_str(), O_WRONLY | O_CREAT, 0600));
  const Fd maker = open_at(AT_FDCWD, making.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(lock_as_keeper(maker.get()));
  store->within(held->id());
  EXPECT_TRUE(has_directory("00000000000000e5") && has_directory("00000000000000e6"));
}

TEST_F(Inner, WhoMakesADirectoryMakesItAgainWhereASweepTookItBeforeHeHeldIt) {
  const std::string id = "00000000000000e7", path = folder.path + "/personal/" + id;
  StateLocation location = StateLocation::personal(folder.path + "/personal", id);
  unsigned taken = 0;
  location.step_hook = [&](const std::string& step) {
    if (step != "inner directory opened" || taken++ > 0) return;
    sweep_unmarked(folder.path + "/personal", [](auto&) { return false; });
    EXPECT_FALSE(has_directory(id));
  };
  const InnerDirectory made = open_inner_directory(location, directory);
  EXPECT_EQ(taken, 2u);
  EXPECT_TRUE(std::filesystem::exists(path + "/outer"));
  sweep_unmarked(folder.path + "/personal", [](auto&) { return false; });
  EXPECT_TRUE(has_directory(id));
}

TEST_F(Inner, OneSweepRemovesADeadClaimAndWhatWasClaimedWithinIt) {
  auto store = machine();
  auto next = entry({"GPU-1"}), outer = entry({"GPU-0"}), inner = entry({"GPU-0"}), innermost = entry({"GPU-0"});
  outer.id = "00000000000000f1";
  inner.id = "00000000000000f2";
  innermost.id = "00000000000000f0";
  next.id = "00000000000000f3";
  auto beside = try_claim(*store, next), first = try_claim(*store, outer);
  auto within = store->within(outer.id);
  auto second = try_claim(*within, inner);
  auto deeper = within->within(inner.id);
  auto third = try_claim(*deeper, innermost);
  deeper->within(innermost.id);
  for (auto* claim : {&third, &second, &first}) claim->reset();
  store->within(next.id);
  for (const std::string& id : {outer.id, inner.id, innermost.id}) EXPECT_FALSE(has_directory(id)) << id;
}

// What a test does once, at the step of the protocol with this name.
struct AtStep {
  AtStep(const char* name, std::function<void()> act) { step = name, todo = std::move(act); }
  ~AtStep() { todo = nullptr; }
  static void hook(const char* name) {
    if (todo && step == name) std::exchange(todo, nullptr)();
  }
  static bool is_done() { return !todo; }
  static inline std::string step;
  static inline std::function<void()> todo;
};

struct Swept : Inner {
  Swept() {
    auto made = options(StateLocation::named(directory));
    made.step_hook = AtStep::hook;
    store = open_claim_store(made);
    auto wanted = entry({"GPU-0"}), living = entry({"GPU-1"});
    wanted.id = dead, living.id = next;
    around = try_claim(*store, wanted), beside = try_claim(*store, living);
  }
  ino_t directory_of_dead() const {
    struct stat found;
    return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
  }
  const std::string dead = "00000000000000d1", next = "00000000000000a1", path = folder.path + "/personal/" + dead;
  std::unique_ptr<port::ClaimStore> store;
  std::optional<port::Claim> around, beside;
};

TEST_F(Swept, TheDirectoryOfADeadClaimIsLockedUntilItIsGone) {
  store->within(dead);
  around.reset();
  bool is_free = true;
  AtStep sweep("abandoned", [&] {
    const Fd claimer = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY);
    is_free = ::flock(claimer.get(), LOCK_SH | LOCK_NB) == 0;
  });
  store->within(next);
  EXPECT_TRUE(AtStep::is_done());
  EXPECT_FALSE(is_free) << "who claims inside waits until the sweep has ended";
  EXPECT_FALSE(has_directory(dead));
}

TEST_F(Swept, NoSweepTakesADirectoryUnderWhoIsClaimingInIt) {
  for (const char* step : {"locked", "slots locked"}) {
    auto inside = store->within(dead);
    const ino_t before = directory_of_dead();
    std::optional<port::Claim> end = std::exchange(around, std::nullopt);
    AtStep claiming(step, [&] {
      end.reset();
      machine()->within(next);
      EXPECT_EQ(directory_of_dead(), before) << step;
    });
    auto claim = try_claim(*inside, entry({"GPU-0"}));
    EXPECT_TRUE(AtStep::is_done() && claim) << step;
    EXPECT_EQ(directory_of_dead(), before) << step;
    claim.reset();
    machine()->within(next);
    EXPECT_FALSE(has_directory(dead)) << step;
    auto wanted = entry({"GPU-0"});
    wanted.id = dead;
    around = try_claim(*store, wanted);
  }
}

TEST_F(Swept, WhoClaimsInADirectoryThatWasSweptMakesItAnewAndTheNextSweepTakesThat) {
  auto inside = store->within(dead);
  around.reset();
  machine()->within(next);
  ASSERT_FALSE(has_directory(dead));
  auto claim = try_claim(*inside, entry({"GPU-0"}));
  EXPECT_TRUE(claim);
  EXPECT_TRUE(has_directory(dead));
  machine()->within(next);
  EXPECT_TRUE(has_directory(dead)) << "somebody claims in it";
  claim.reset();
  machine()->within(next);
  EXPECT_FALSE(has_directory(dead));
}

std::function<void()> when_seen;

// The order of looks: it is seen, it ends, its locks are to be copied.
TEST_F(Inner, AKeeperThatEndsBetweenTheLookAndTheCopyIsSeenToHaveEnded) {
  Child keeper([&](Child& me) {
    auto store = machine();
    auto held = try_claim(*store, entry({"GPU-0"}));
    me.say('c');
    me.hear();
    return 0;
  });
  keeper.hear();
  auto made = options(StateLocation::named(directory));
  made.step_hook = [](const char* step) {
    if (std::string(step) == "keeper seen" && when_seen) std::exchange(when_seen, nullptr)();
  };
  when_seen = [&] { keeper.kill(SIGKILL), keeper.wait(); };
  auto store = open_claim_store(made);
  ASSERT_FALSE(store->own_claim("0123456789abcdef").empty());
  const port::InheritedLocks found = store->copy_locks("0123456789abcdef");
  EXPECT_FALSE(when_seen) << "it was seen";
  EXPECT_TRUE(found.copies.empty());
  EXPECT_FALSE(found.keeper) << "it keeps nothing any more";
  EXPECT_TRUE(found.ended);
  EXPECT_TRUE(store->own_claim("0123456789abcdef").empty());
}

TEST_F(Inner, AClaimThatHasEndedSinceItWasLookedAtIsSeenToHaveEnded) {
  auto store = machine();
  EXPECT_TRUE(store->copy_locks("0123456789abcdef").ended);
}

TEST_F(Inner, WhoeverComesAfterTheClaimAroundHimHasEndedIsToldSo) {
  auto store = machine();
  auto outer = try_claim(*store, entry({"GPU-0"}));
  const std::string id = outer->id();
  auto inside = try_claim(*store->within(id), entry({"GPU-0"}));
  std::filesystem::remove_all(folder.path + "/personal/" + id);
  EXPECT_NE(trouble([&] { store->within(id); }).find("was deleted"), std::string::npos) << "while that claim lives";
  outer.reset();
  EXPECT_NE(trouble([&] { store->within(id); }).find("the claim around this one has ended"), std::string::npos);
}

TEST_F(Inner, AnIdIsOnePlainComponent) {
  auto store = machine();
  for (const char* id : {"", "..", "../../etc", "0123456789abcdeF", "0123456789abcdef/", "machine"})
    EXPECT_THROW(store->within(id), Error) << id;
}

TEST_F(Inner, TheUnitsOfAClaimAreThoseOfItsLiveNoteAndOfNoOther) {
  auto store = machine();
  auto wanted = entry(units, 2), other = entry(units, 2);
  other.id = "00000000000000ff";
  auto first = try_claim(*store, wanted), second = try_claim(*machine(), other);
  EXPECT_EQ(machine()->own_claim(wanted.id), (std::vector<std::string>{"GPU-0", "GPU-1"}));
  EXPECT_EQ(machine()->own_claim(other.id), (std::vector<std::string>{"GPU-2", "GPU-3"}));
  EXPECT_TRUE(machine()->own_claim("00000000000000aa").empty());
  first.reset();
  EXPECT_TRUE(machine()->own_claim(wanted.id).empty());
  store->amend(second->id(), std::nullopt, ::getpid());
  EXPECT_TRUE(machine()->own_claim(other.id).empty()) << "a claim that is over has no units";
}

TEST_F(Inner, ANewEndIsRecordedForTheClaimAlone) {
  auto store = machine();
  auto wanted = entry({"GPU-0"});
  wanted.time = Seconds(60);
  auto other = entry({"GPU-1"});
  other.id = "00000000000000ff";
  auto first = try_claim(*store, wanted), second = try_claim(*store, other);
  WallTime end(Seconds(2'000'000'000));
  store->amend(first->id(), end);
  for (const model::Holding& holding : store->holdings())
    EXPECT_EQ(holding.until, holding.key == "GPU-0" ? std::optional(end) : std::nullopt);
}

}  // namespace
}  // namespace thole::host::claim_tests
