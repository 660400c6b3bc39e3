// A claim is a smaller machine: those who claim inside it get distinct units of it, by the same protocol.
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
  auto inside = store->within(outer->id), beside = store->within(outer->id);
  auto first = try_claim(*inside, entry(outer->keys)), second = try_claim(*beside, entry(outer->keys));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->keys, second->keys);
  auto third = inside->enter(entry(outer->keys));
  EXPECT_FALSE(third->step(fifo_rule(entry(outer->keys))));
  first.reset();
  EXPECT_EQ(third->sleep({}, std::nullopt), port::Wake::release);
  EXPECT_TRUE(third->step(fifo_rule(entry(outer->keys))));
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
  here->within(mine->id);
  EXPECT_TRUE(has_directory(noted) && has_directory(claimed));
  note.reset();
  within.reset();
  here->within(mine->id);
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

TEST_F(Inner, WhoeverComesAfterTheClaimAroundHimHasEndedIsToldSo) {
  auto store = machine();
  auto outer = try_claim(*store, entry({"GPU-0"}));
  const std::string id = outer->id;
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
  store->amend(*second, std::nullopt, ::getpid());
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
  store->amend(*first, end);
  for (const model::Holding& holding : store->holdings())
    EXPECT_EQ(holding.until, holding.key == "GPU-0" ? std::optional(end) : std::nullopt);
}

}  // namespace
}  // namespace thole::host::claim_tests
