#include "app/claim/new_end.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "model/queue_view.hpp"
#include "support/fake_site.hpp"
#include "support/said.hpp"

namespace thole {
namespace {

// Of four GPUs two are held for 30 s. Who waits for three of them has let two claims go first: one of them is to spare.
class NewEnd : public testing::Test {
 protected:
  NewEnd() {
    fake.site->observer.look(Millis{1000});
    store.held = {{.id = "holder", .keys = {store.slots[0], store.slots[1]}, .uid = 1, .until = after(30)},
                  {.id = "first", .keys = {store.slots[2]}, .uid = 2, .until = after(5)},
                  {.id = "second", .keys = {store.slots[3]}, .uid = 2, .until = after(5)}};
    model::Waiting waiter;
    waiter.ticket = 7;
    waiter.uid = 3;
    waiter.eligible = store.slots;
    waiter.count = 3;
    store.line = {waiter};
  }
  WallTime after(int seconds) const { return fake.clock.wall() + Seconds{seconds}; }
  bool extend(const std::string& id, int seconds) {
    return app::amend_end(store, *fake.site, {id, store.held[id == "first" ? 1 : 2].keys, {{7, 3}}, std::nullopt},
                          after(seconds));
  }
  std::optional<WallTime> end_of(std::size_t held) const { return store.held[held].until; }

  test::FakeSite fake{4};
  test::FakeStore& store = fake.store;
};

TEST_F(NewEnd, IsAskedAnewByEachOfTwoThatTogetherPutSomebodyOff) {
  EXPECT_TRUE(extend("first", 60));
  EXPECT_EQ(end_of(1), after(60));
  EXPECT_THAT(test::said([&] { extend("second", 60); }), testing::HasSubstr("u3 has let this claim go first"));
  EXPECT_EQ(end_of(2), after(5));
}

// It is never known to others: who decides by it takes what it does not leave.
TEST_F(NewEnd, IsRefusedWhereAnotherWasGrantedAtTheSameMoment) {
  store.on_amend = [&] { store.held[2].until = after(60); };
  EXPECT_THAT(test::said([&] { extend("first", 60); }), testing::HasSubstr("u3 has let this claim go first"));
  EXPECT_EQ(end_of(1), after(5));
}

TEST_F(NewEnd, IsRefusedWhereSomebodyHasStartedAtTheSameMoment) {
  store.held.pop_back();
  store.on_amend = [&] {
    store.on_amend = nullptr;
    store.held.push_back({.id = "newcomer", .keys = {store.slots[3]}, .uid = 4, .until = after(3600)});
  };
  EXPECT_THAT(test::said([&] { extend("first", 60); }), testing::HasSubstr("u3 has let this claim go first"));
  EXPECT_EQ(end_of(1), after(5));
}

// As one that holds something can: nobody's new end is kept from him so.
TEST_F(NewEnd, IsHadAlsoWhereAnothersChangesAllTheTime) {
  int changes = 0;
  store.on_amend = [&] { store.held[0].until = after(30 + ++changes % 2); };
  EXPECT_TRUE(extend("first", 60));
  EXPECT_EQ(end_of(1), after(60));
}

// Each of several that came at once would count on the others' ends as they were.
TEST_F(NewEnd, IsRefusedWithoutOrderWhileSomebodyOfThemWaits) {
  store.is_kept = true;
  EXPECT_THAT(test::said([&] { extend("first", 6); }), testing::HasSubstr("cannot be told in order now"));
  EXPECT_EQ(end_of(1), after(5));
  EXPECT_TRUE(extend("first", 4)) << "an earlier one puts nobody off";
  store.line.clear();
  EXPECT_TRUE(extend("first", 60));
}

TEST_F(NewEnd, IsRefusedWhereNothingIsInOrderForLong) {
  int changes = 0;
  store.on_amend = [&] { store.held[0].until = after(30 + ++changes); };
  EXPECT_THAT(test::said([&] { extend("first", 6); }), testing::HasSubstr("others come and go all the time"));
  EXPECT_EQ(end_of(1), after(5));
}

// By the ticket of another one, who has written that number into his own.
TEST_F(NewEnd, IsRefusedAlsoWhereAnothersTicketShowsTheNumberOfWhoWaits) {
  store.said = {{7, 3}};
  store.line.front().uid = 4;
  EXPECT_THROW(extend("first", 3600), Error);
  EXPECT_EQ(end_of(1), after(5));
}

// While somebody's end is not known nobody can be promised a start: who comes then may not begin either.
TEST_F(NewEnd, IsRefusedWhileWhoWaitsCanBePromisedNothing) {
  store.held[0].until.reset();                   // it stands still, say
  EXPECT_THAT(test::said([&] { extend("first", 6); }), testing::HasSubstr("u3 has let this claim go first"));
  store.line.front().eligible = {store.slots[0], store.slots[1], store.slots[3]};
  EXPECT_TRUE(extend("first", 6)) << "what it does not want is nothing to it";
}

// He could not start even if all let go: as long as somebody uses a GPU without a claim.
TEST_F(NewEnd, IsRefusedWhileWhoWaitsIsPassedOver) {
  store.held.pop_back();
  model::GpuProcess stranger;
  stranger.pid = 4711;
  stranger.memory_mib = 11000;
  fake.backend->gpus[3].use.processes = std::vector{stranger};
  fake.backend->gpus[3].use.memory_used_mib = 11000;
  fake.site->observer.look(Millis{1000});
  store.line.front().count = 4;
  EXPECT_THROW(extend("first", 60), Error);
  store.line.front().trust_claims = true;        // he waits for the holders alone, all of them
  EXPECT_THROW(extend("first", 60), Error);
  EXPECT_TRUE(extend("first", 29));
}

TEST_F(NewEnd, OfWhatStandsStillIsReckonedByWhatItWouldBeIfItWentOn) {
  store.held[1].until.reset();                   // as others are told while it is paused
  store.held[2].until = after(60);               // the one to spare
  const app::EndOfClaim first{"first", store.held[1].keys, {{7, 3}}, std::nullopt};
  const auto check = [&](int earlier, int until) {
    return test::said([&] { app::check_hidden_end(store, *fake.site, first, after(earlier), after(until)); });
  };
  EXPECT_EQ(check(5, 30), "nothing was thrown");
  EXPECT_THAT(check(5, 60), testing::HasSubstr("u3 has let this claim go first"));
  EXPECT_EQ(end_of(1), std::nullopt);
}

// Who is stopped comes back to his number, also where he has left the line meanwhile (thole claim).
TEST_F(NewEnd, WhoStandsStillIsForgottenByNoLook) {
  store.held.pop_back();                         // nobody is to spare
  app::EndOfClaim first{"first", store.held[1].keys, {{7, 3}}, std::nullopt};
  store.line.front().eligible = {store.slots[0], store.slots[1], store.slots[2]};
  const auto line = std::exchange(store.line, {});
  EXPECT_TRUE(app::amend_end(store, *fake.site, first, after(6)));
  store.line = line;
  EXPECT_THROW(app::amend_end(store, *fake.site, first, after(60)), Error);
}

// The spare one is in use by who has claimed nothing, since the claim began.
TEST_F(NewEnd, IsAskedOfTheMachineAsItIsNow) {
  store.held.pop_back();
  EXPECT_TRUE(extend("first", 60));
  store.held[1].until = after(5);
  test::FakeSite now{4};
  model::GpuProcess stranger;
  stranger.pid = 4711;
  stranger.memory_mib = 11000;
  now.backend->gpus[3].use.processes = std::vector{stranger};
  now.backend->gpus[3].use.memory_used_mib = 11000;
  fake.site->look_anew = [&] {
    now.observer->look(Millis{1000});
    return std::move(now.observer);
  };
  EXPECT_THAT(test::said([&] { extend("first", 60); }), testing::HasSubstr("u3 has let this claim go first"));
  EXPECT_EQ(end_of(1), after(5));
}

TEST_F(NewEnd, IsFreeOnceNobodyOfThemWaits) {
  store.line.clear();
  EXPECT_TRUE(extend("first", 60));
  EXPECT_TRUE(extend("second", 3600));
}

// Whoever may write into the shared file has altered his ticket: he says himself that he waits.
TEST_F(NewEnd, IsRefusedAlsoWhereTheTicketOfWhoWaitsWasAltered) {
  store.said = {{7, 3}};
  store.line.front().vouched = false;
  store.line.front().uid = static_cast<std::uint32_t>(-1);
  EXPECT_THROW(extend("first", 3600), Error);
  EXPECT_EQ(end_of(1), after(5));
}

TEST_F(NewEnd, IsReckonedByTheClaimsOwnUnitsWhateverIdOthersWrite) {
  store.held[0] = {.id = "second", .keys = {store.slots[0]}, .uid = 1, .until = after(7200)};
  store.held.push_back({.id = "holder", .keys = {store.slots[1]}, .uid = 1, .until = after(30)});
  EXPECT_THROW(extend("second", 3600), Error);
  EXPECT_EQ(end_of(2), after(5));
}

// Of a claim in another one its store tells the last part of its id only.
TEST_F(NewEnd, OfAClaimWithinAClaimIsFoundByTheLastPartOfItsId) {
  EXPECT_TRUE(extend("first", 60));
  const app::EndOfClaim second{"outer/second", store.held[2].keys, {{7, 3}}, std::nullopt};
  EXPECT_THROW(app::amend_end(store, *fake.site, second, after(60)), Error);
}

TEST(CountedEnd, OfWhoIsBeingEndedIsNowAndOfWhoStaysNone) {
  const WallTime now{Millis{1'700'000'000'000}};
  EXPECT_EQ(model::counted_end(std::nullopt, now), std::nullopt);
  EXPECT_EQ(model::counted_end(now + Seconds{1}, now), now + Seconds{1});
  EXPECT_EQ(model::counted_end(now - Seconds{1}, now), now);
  EXPECT_EQ(model::counted_end(now - model::takes_to_end + Millis{1}, now), now);
  EXPECT_EQ(model::counted_end(now - model::takes_to_end, now), std::nullopt);
}

}  // namespace
}  // namespace thole
