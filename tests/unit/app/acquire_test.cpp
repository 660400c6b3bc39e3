#include "app/claim/acquire.hpp"
#include "app/claim/claim_variables.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "support/acquiring.hpp"
#include "support/fake_site.hpp"
#include "support/said.hpp"

namespace thole {
namespace {

using app::acquire;
using test::FakeSite;
using test::failure_of;
using test::want;

model::GpuProcess stranger(pid_t pid) {
  model::GpuProcess process;
  process.pid = pid;
  process.user = "anna";
  process.memory_mib = 11000;
  return process;
}

TEST(Acquire, TakesWhatIsFree) {
  FakeSite fake(4);
  auto got = acquire(*fake.site, want(2), {});
  EXPECT_EQ(got.chosen.size(), 2u);
  EXPECT_EQ(got.claim.keys().size(), 2u);
  EXPECT_EQ(got.claim.id().size(), 16u);
}

// Who tries again and again, for what he got was not listed once more, may never come to sleep.
TEST(Acquire, WhoIsInterruptedTakesNothing) {
  FakeSite fake(2);
  const Fd interrupted(::eventfd(1, EFD_CLOEXEC));
  app::AcquireOptions options;
  options.cancel = {interrupted.get()};
  EXPECT_EQ(failure_of(fake, want(1), options), ErrorCode::interrupted);
  EXPECT_TRUE(fake.store.entered.empty());
}

TEST(Acquire, RefusesMoreThanTheMachineHas) {
  FakeSite fake(8);
  EXPECT_EQ(failure_of(fake, want(9)), ErrorCode::usage);
}

TEST(Acquire, RefusesAtOnceWhatSicknessMakesImpossibleAndNamesTheSick) {
  FakeSite fake(2);
  fake.backend->gpus[1].health = model::Health::lost;
  try {
    acquire(*fake.site, want(2), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(std::string(error.what()).find("GPU 1: lost"), std::string::npos) << error.what();
  }
}

TEST(Acquire, WhoTrustsClaimsGetsNoSickGpuEither) {
  FakeSite fake(4);
  fake.backend->gpus[1].health = model::Health::lost;
  fake.backend->gpus[2].compute_mode = std::string("prohibited");
  auto request = want(2);
  request.trust_claims = true;
  request.wait = Seconds{0};
  EXPECT_EQ(acquire(*fake.site, request, {}).chosen, (std::vector<std::size_t>{0, 3}));
  request.gpus = 3;
  const std::string text = test::said([&] { acquire(*fake.site, request, {}); });
  EXPECT_NE(text.find("3 GPUs asked for, 2 of 4 that would do can be used\n  GPU 1: lost"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU 2: its compute mode prohibits computing"), std::string::npos) << text;
}

TEST(Acquire, WhatOnlyProhibitedGpusCouldGiveIsRefusedAtOnce) {
  FakeSite fake(1);
  fake.backend->gpus[0].compute_mode = std::string("prohibited");
  EXPECT_EQ(failure_of(fake, want(1)), ErrorCode::unavailable);
}

TEST(Acquire, WhoTrustsClaimsTakesWhatDoesNotAnswerLast) {
  FakeSite fake(3);
  fake.backend->gpus[0].health = model::Health::unreadable;
  auto request = want(2);
  request.trust_claims = true;
  EXPECT_EQ(acquire(*fake.site, request, {}).chosen, (std::vector<std::size_t>{1, 2}));
  request.gpus = 3;
  EXPECT_EQ(acquire(*fake.site, request, {}).chosen.size(), 3u);
}

TEST(Acquire, WhatFellSickWhileSomebodyWhoTrustsClaimsWaitedIsGivenBackAndHeWaits) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  auto request = want(1);
  request.trust_claims = true;
  request.wait = Seconds{5};
  fake.store.on_sleep = [&] {
    if (fake.store.held.empty()) return port::Wake::deadline;
    fake.backend->gpus[0].health = model::Health::lost;
    fake.store.held.clear();
    return port::Wake::release;
  };
  std::string given_back;
  app::AcquireOptions options;
  options.caution = [&](const std::string& text) { given_back += text + "\n"; };
  EXPECT_EQ(failure_of(fake, request, options), ErrorCode::timed_out) << "it keeps its ticket: it may be well again";
  EXPECT_NE(given_back.find("GPU 0 was given back: lost"), std::string::npos) << given_back;
}

TEST(Acquire, DoesNotTakeWhatAStrangerUses) {
  FakeSite fake(2);
  fake.backend->gpus[0].use.processes = std::vector{stranger(1)};
  fake.backend->gpus[0].use.memory_used_mib = 11000;
  auto got = acquire(*fake.site, want(1), {});
  EXPECT_EQ(got.chosen, std::vector<std::size_t>{1});
}

TEST(Acquire, GivesBackAUnitThatAStrangerTookBeforeTheLock) {
  FakeSite fake(1);
  fake.backend->on_read = [&](test::FakeBackend& backend) {  // seen free, then used for longer than a teardown takes, then free
    const bool used = backend.reads == 2;
    if (used) fake.clock.passed += std::chrono::seconds(10);
    backend.gpus[0].use.processes = used ? std::vector{stranger(1)} : std::vector<model::GpuProcess>{};
    backend.gpus[0].use.memory_used_mib = used ? 11000 : 0;
  };
  std::vector<std::string> cautions;
  app::AcquireOptions options;
  options.caution = [&](const std::string& text) { cautions.push_back(text); };
  auto got = acquire(*fake.site, want(1), options);
  EXPECT_EQ(got.claim.keys().size(), 1u);
  ASSERT_EQ(cautions.size(), 1u);
  EXPECT_NE(cautions[0].find("GPU 0 was given back"), std::string::npos) << cautions[0];
}

TEST(Acquire, SaysBusyWithoutWaitingAndTimedOutAfterWaiting) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  auto request = want(1);
  request.wait = Seconds{0};
  EXPECT_EQ(failure_of(fake, request), ErrorCode::busy);
  request.wait = Seconds{5};
  EXPECT_EQ(failure_of(fake, request), ErrorCode::timed_out);
}

TEST(Acquire, SaysHowLongItWaitedAsItWasAsked) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  auto request = want(1);
  for (const auto& [wait, words] : {std::pair{Millis{300}, "not free after 0.3s"}, {Millis{90'500}, "not free after 90.5s"},
                                    {Millis{90'000}, "not free after 1m30s"}}) {
    request.wait = wait;
    const std::string text = test::said([&] { acquire(*fake.site, request, {}); });
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

TEST(Acquire, NobodyWaitsForWhatOnlyHeWouldEnd) {
  FakeSite fake(3);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0], fake.store.slots[1]}},
                     {"bbbbbbbbbbbbbbbb", {fake.store.slots[2]}, 7}};
  app::AcquireOptions options;
  options.own = {"aaaaaaaaaaaaaaaa"};
  auto request = want(2);
  request.wait = Seconds{5};
  const std::string text = test::said([&] { acquire(*fake.site, request, options); });
  EXPECT_NE(text.find("GPUs 0, 1: held by this program's own pool (claim aaaaaaaaaaaaaaaa)"), std::string::npos) << text;
  request.gpus = 1;                            // another's, which may come free
  EXPECT_EQ(failure_of(fake, request, options), ErrorCode::timed_out);
  request.gpus = 2;
  request.wait = Seconds{0};
  EXPECT_EQ(failure_of(fake, request, options), ErrorCode::busy);
}

TEST(Acquire, StartsWhenTheHolderLeaves) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  fake.backend->gpus[0].use.processes = std::vector{stranger(1)};   // the holder's own, gone when he lets go
  fake.backend->gpus[0].use.memory_used_mib = 11000;
  int slept = 0;
  fake.store.on_sleep = [&] {
    ++slept;
    fake.store.held.clear();
    fake.backend->gpus[0].use.processes = std::vector<model::GpuProcess>{};
    fake.backend->gpus[0].use.memory_used_mib = 0;
    return port::Wake::release;
  };
  auto got = acquire(*fake.site, want(1), {});
  EXPECT_EQ(got.claim.keys().size(), 1u);
  EXPECT_EQ(slept, 1);
  EXPECT_EQ(fake.backend->reads, 2) << "what was seen on a claimed unit was its owner's: it is looked at once it is ours";
}

TEST(Acquire, WhatAStrangerKeepsWhenItsOwnerHasLeftIsGivenBackOnce) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  fake.backend->gpus[0].use.processes = std::vector{stranger(1)};
  fake.backend->gpus[0].use.memory_used_mib = 11000;
  fake.backend->on_read = [&](test::FakeBackend&) { fake.clock.passed += std::chrono::seconds(3); };  // no teardown
  int slept = 0, cautions = 0;
  fake.store.on_sleep = [&] {
    fake.store.held.clear();
    return ++slept == 1 ? port::Wake::release : port::Wake::deadline;
  };
  app::AcquireOptions options;
  options.caution = [&](const std::string& text) {
    if (++cautions > 3) throw Error(ErrorCode::internal, "again and again: " + text);
  };
  auto request = want(1);
  request.wait = Seconds{60};
  EXPECT_EQ(failure_of(fake, request, options), ErrorCode::timed_out);
  EXPECT_EQ(cautions, 1);
}

TEST(Acquire, ALengthThatNobodyEnforcesIsNotDeclared) {
  FakeSite fake(1);
  auto request = want(1);
  request.time = Seconds{60};
  app::AcquireOptions options;
  for (const bool enforced : {false, true}) {
    options.enforced = enforced;
    acquire(*fake.site, request, options);
    EXPECT_EQ(fake.store.entered.back().time.has_value(), enforced) << "others would be promised by it";
  }
}

TEST(Acquire, NewsThatDoNotLastAreNotTold) {
  FakeSite fake(2);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}, {"bbbbbbbbbbbbbbbb", {fake.store.slots[1]}, 7}};
  int slept = 0, told = 0;
  fake.store.on_sleep = [&] {   // one gives back two GPUs, one after the other
    fake.store.held.pop_back();
    return ++slept == 1 || !fake.store.held.empty() ? port::Wake::release : port::Wake::turn;
  };
  app::AcquireOptions options;
  options.waiting = [&](const app::Standing&) { ++told; };
  EXPECT_EQ(acquire(*fake.site, want(2), options).chosen.size(), 2u);
  EXPECT_EQ(slept, 2);
  EXPECT_EQ(told, 1) << "that one of the two is free already was over at once";
}

TEST(Acquire, NewsThatLastAreTold) {
  FakeSite fake(2);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}, {"bbbbbbbbbbbbbbbb", {fake.store.slots[1]}, 7}};
  int slept = 0, told = 0;
  fake.store.on_sleep = [&] {
    if (++slept == 2) return port::Wake::deadline;   // that of the pause in which they might be over
    fake.store.held.pop_back();
    return port::Wake::release;
  };
  app::AcquireOptions options;
  options.waiting = [&](const app::Standing&) { ++told; };
  EXPECT_EQ(acquire(*fake.site, want(2), options).chosen.size(), 2u);
  EXPECT_EQ(told, 2);
}

TEST(Acquire, AUnitThatBecomesReadableMeanwhileIsTakenToo) {
  FakeSite fake(2);
  fake.backend->gpus[0].use.memory_used_mib = 11000;
  fake.backend->gpus[1].memory_mib.reset();
  auto request = want(1);
  request.memory_mib = 20480;
  fake.store.on_sleep = [&] {
    fake.backend->gpus[1].memory_mib = 40960;
    return port::Wake::other_fd;
  };
  EXPECT_EQ(acquire(*fake.site, request, {}).chosen, std::vector<std::size_t>{1});
}

// A GPU that leaves the driver's list shifts the indices of those behind it: a name given as index keeps its meaning.
TEST(Acquire, AnIndexMeansWhatItMeantWhenOneBeforeItLeavesTheListMeanwhile) {
  for (const char* how : {"named", "masked"}) {
    FakeSite fake(3);
    fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[1]}, 7}};
    auto request = want(1);
    if (how == std::string("named")) request.on = {"1"};
    else fake.environment["CUDA_VISIBLE_DEVICES"] = "1";
    fake.store.on_sleep = [&] {
      fake.backend->gpus.erase(fake.backend->gpus.begin());
      fake.store.held.clear();
      return port::Wake::other_fd;
    };
    const auto got = acquire(*fake.site, request, {});
    EXPECT_EQ(got.claim.keys(), std::vector{fake.store.slots[1]}) << how;
    EXPECT_EQ(got.units[got.chosen.front()].key, fake.store.slots[1]) << how;
  }
}

TEST(Acquire, WhatLeavesTheListBetweenChoiceAndLockShiftsNothing) {
  FakeSite fake(3);
  fake.backend->on_read = [](test::FakeBackend& backend) {
    if (backend.reads == 2) backend.gpus.erase(backend.gpus.begin());
  };
  auto request = want(2);
  request.on = {"1", "2"};
  const auto got = acquire(*fake.site, request, {});
  EXPECT_EQ(got.claim.keys(), (std::vector{fake.store.slots[1], fake.store.slots[2]}));
  EXPECT_EQ(got.chosen, (std::vector<std::size_t>{0, 1})) << "as they are numbered now";
  EXPECT_EQ(app::variables(*fake.observer, got, request, plan::Ids::automatic).set.at("CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(app::variables(*fake.observer, got, request, plan::Ids::uuid).set.at("CUDA_VISIBLE_DEVICES"),
            fake.store.slots[1] + "," + fake.store.slots[2]);
}

// Nobody's wait ends by it; he is told once, and has it when it is back.
TEST(Acquire, WhoWaitsForWhatLeavesTheListKeepsHisTicket) {
  for (const char* how : {"named", "counted", "after the lock", "all", "shared"}) {
    const std::string kind = how;
    FakeSite fake(2);
    const std::vector<model::Gpu> all = fake.backend->gpus;
    if (kind != "after the lock") fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[1]}, 7}};
    else fake.backend->on_read = [](test::FakeBackend& backend) { if (backend.reads == 2) backend.gpus.pop_back(); };
    auto request = want(kind == "counted" ? 2 : 1);
    if (kind == "named" || kind == "after the lock") request.on = {"1"};
    if (kind == "all") request.on = {"1"}, request.order = {"1"};
    if (kind == "shared") request.on = {"1"}, request.share = true, request.memory_mib = 1024;
    int slept = 0;
    fake.store.on_sleep = [&] {
      ++slept;
      if (slept == 1 && kind == "all") fake.backend->gpus.clear();
      else if (slept == 1 && kind == "shared") fake.backend->gpus[1].memory_mib.reset();
      else if (slept == 1 && kind != "after the lock") fake.backend->gpus.pop_back();
      if (slept == 2) fake.store.held.clear();
      if (slept == 4) fake.backend->gpus = all;
      return slept > 9 ? port::Wake::deadline : port::Wake::other_fd;
    };
    std::vector<std::string> cautions;
    app::AcquireOptions options;
    options.caution = [&](const std::string& text) { cautions.push_back(text); };
    const auto got = acquire(*fake.site, request, options);
    EXPECT_EQ(got.units[got.chosen.back()].key, fake.store.slots[1]) << kind;
    EXPECT_EQ(slept, 4) << kind;
    EXPECT_EQ(cautions.size(), kind == "after the lock" ? 2u : 1u) << kind;
    ASSERT_FALSE(cautions.empty());
    EXPECT_NE(cautions.back().find("waiting for that to change"), std::string::npos) << cautions.back();
  }
}

TEST(Acquire, TheUseOfOtherSharersIsNoReasonToGiveBack) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 0, 12000}};
  model::GpuProcess other = stranger(1);
  other.user = "u0";
  fake.backend->gpus[0].use.processes = std::vector{other};
  fake.backend->gpus[0].use.memory_used_mib = 11000;
  auto request = want(1);
  request.share = true;
  request.memory_mib = 8192;
  request.wait = Seconds{5};
  std::vector<std::string> cautions;
  app::AcquireOptions options;
  options.caution = [&](const std::string& text) { cautions.push_back(text); };
  EXPECT_EQ(acquire(*fake.site, request, options).claim.keys().size(), 1u);
  EXPECT_TRUE(cautions.empty());
}

// With hidepid the processes of others have no user.
TEST(Acquire, WhatSharersUseIsCountedOnceWhereNobodySeesWhoseItIs) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7, 12000}};
  model::GpuProcess theirs = stranger(1);
  theirs.user.clear();
  theirs.memory_mib = 12500;
  fake.backend->gpus[0].use.processes = std::vector{theirs};
  fake.backend->gpus[0].use.memory_used_mib = 12500;
  fake.store.me = 7;
  auto request = want(1);
  request.share = true;
  request.memory_mib = 20000;
  request.wait = Seconds{0};
  EXPECT_EQ(acquire(*fake.site, request, {}).claim.keys().size(), 1u);
  theirs.memory_mib = 25000;                     // more than they have asked for: somebody is there beside them
  fake.backend->gpus[0].use.processes = std::vector{theirs};
  fake.backend->gpus[0].use.memory_used_mib = 25000;
  EXPECT_EQ(failure_of(fake, request), ErrorCode::busy);
  theirs.memory_mib = 12500;
  fake.backend->gpus[0].use.memory_used_mib = 12500;
  theirs.user = "anna";
  fake.backend->gpus[0].use.processes = std::vector{theirs};
  EXPECT_EQ(failure_of(fake, request), ErrorCode::busy) << "a stranger's is there beside";
}

TEST(Acquire, TheHeadLooksByTheClockForUseThatOnlyTheDriverSees) {
  FakeSite fake(1);
  fake.backend->gpus[0].use.memory_used_mib = 11000;   // of nobody who could be watched
  auto request = want(1);
  request.wait = Seconds{5};
  int slept = 0;
  fake.store.on_sleep = [&] {
    fake.backend->gpus[0].use.memory_used_mib = 0;
    return ++slept == 1 ? port::Wake::again : port::Wake::deadline;
  };
  EXPECT_EQ(acquire(*fake.site, request, {}).claim.keys().size(), 1u);
  EXPECT_EQ(slept, 1);
}

TEST(Acquire, AnInterruptEndsTheWait) {
  FakeSite fake(1);
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[0]}, 7}};
  Pipe pipe = make_pipe();
  ASSERT_TRUE(write_all(pipe.write.get(), "x"));
  fake.store.on_sleep = [] { return port::Wake::other_fd; };
  app::AcquireOptions options;
  options.cancel = {pipe.read.get()};
  EXPECT_EQ(failure_of(fake, want(1), options), ErrorCode::interrupted);
}

// Inside a claim of two GPUs.
class InsideAClaim : public testing::Test {
 protected:
  InsideAClaim() : fake(4) {
    fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[1], fake.store.slots[2]}, 0}};
    fake.environment["THOLE_CLAIM"] = "aaaaaaaaaaaaaaaa";
  }
  FakeSite fake;
};

TEST_F(InsideAClaim, AllOfItIsReusedWithoutALock) {
  auto got = acquire(*fake.site, want(2), {});
  EXPECT_TRUE(got.claim.is_all_of_another());
  EXPECT_EQ(got.claim.id(), "aaaaaaaaaaaaaaaa");
  EXPECT_TRUE(got.claim.descriptors().empty());
  EXPECT_EQ(got.chosen, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(fake.store.steps, 0);
}

TEST_F(InsideAClaim, FewerAreLeasedInside) {
  fake.store.inner["aaaaaaaaaaaaaaaa"] = {{"bbbbbbbbbbbbbbbb", {fake.store.slots[1]}, 0}};
  auto got = acquire(*fake.site, want(1), {});
  EXPECT_FALSE(got.claim.is_all_of_another());
  EXPECT_EQ(got.chosen, std::vector<std::size_t>{2});
  EXPECT_EQ(got.claim.id().substr(0, 17), "aaaaaaaaaaaaaaaa/");
  EXPECT_EQ(fake.store.steps, 0) << "the machine's own queue is not touched";
}

TEST_F(InsideAClaim, MoreThanItHasIsRefusedAtOnce) { EXPECT_EQ(failure_of(fake, want(3)), ErrorCode::usage); }

TEST_F(InsideAClaim, AStaleClaimIsIgnored) {
  fake.environment["THOLE_CLAIM"] = "cccccccccccccccc";
  auto got = acquire(*fake.site, want(2), {});
  EXPECT_FALSE(got.claim.is_all_of_another());
  EXPECT_EQ(got.chosen, (std::vector<std::size_t>{0, 3}));
}

TEST_F(InsideAClaim, AShareBindsWhatClaimsWithinIt) {
  fake.store.held = {{"aaaaaaaaaaaaaaaa", {fake.store.slots[1]}, 0, 8192}};
  const auto share = [](std::uint64_t mib) {
    model::Request request = want(1);
    request.share = true;
    request.memory_mib = mib;
    return request;
  };
  model::Request alone = want(1);
  alone.memory_mib = 8193;
  EXPECT_EQ(failure_of(fake, alone), ErrorCode::usage);
  EXPECT_EQ(failure_of(fake, share(8193)), ErrorCode::usage);
  const auto fraction = [&](const model::Request& request) {
    const app::Acquired got = acquire(*fake.site, request, {});
    return app::variables(*fake.observer, got, request, plan::Ids::automatic).set.at("XLA_PYTHON_CLIENT_MEM_FRACTION");
  };
  EXPECT_EQ(fraction(share(8192)), "0.200");
  EXPECT_EQ(fraction(share(4096)), "0.100");
  EXPECT_EQ(fraction(want(1)), "0.200") << "alone, but with no more than the share around it";
  model::Request now = share(4096);
  now.wait = Seconds{0};
  fake.store.inner["aaaaaaaaaaaaaaaa"] = {{"bbbbbbbbbbbbbbbb", {fake.store.slots[1]}, 0, 3585}};
  EXPECT_EQ(failure_of(fake, now), ErrorCode::busy) << "their sum is more";
}

TEST_F(InsideAClaim, SomebodyElsesClaimIsIgnored) {
  fake.store.held[0].uid = 7;
  auto got = acquire(*fake.site, want(2), {});
  EXPECT_FALSE(got.claim.is_all_of_another());
}

}  // namespace
}  // namespace thole
