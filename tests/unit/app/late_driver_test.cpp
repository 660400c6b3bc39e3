// Waiting in line for GPUs whose driver does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/error.hpp"
#include "support/acquiring.hpp"
#include "support/fake_site.hpp"

namespace thole {
namespace {

using app::acquire;
using test::FakeSite;
using test::failure_of;
using test::want;

// A driver that does not answer about GPU 0 until somebody has slept so many times with his ticket.
class LateDriver : public testing::Test {
 protected:
  // Answers as well where nobody sleeps there, so that it is no wait without end; that is told.
  LateDriver() : fake(2) {
    fake.backend->gpus[0].health = model::Health::hung;
    fake.backend->on_read = [this](test::FakeBackend& backend) {
      most_looks = std::max(most_looks, ++looks);
      if (looks > 5) backend.gpus[0].health = model::Health::ok;
    };
    fake.store.on_sleep = [this] {
      looks = 0;
      fake.clock.passed += std::chrono::seconds(3);
      if (++slept == until) answers();
      return slept > 20 ? port::Wake::deadline : woken;
    };
  }
  void answers() {
    if (then) then();
    else fake.backend->gpus[0].health = model::Health::ok;
  }
  FakeSite fake;
  std::function<void()> then;                   // what is there when it answers; empty: the same GPUs
  port::Wake woken = port::Wake::again;
  int until = 4, slept = 0, looks = 0, most_looks = 0;
};

TEST_F(LateDriver, WhoIsInLineForWhatHangsSleepsWithHisTicket) {
  for (const port::Wake how : {port::Wake::again, port::Wake::other_fd}) {
    woken = how;
    slept = looks = most_looks = 0;
    fake.backend->gpus[0].health = model::Health::ok;
    fake.store.held = {{"aaaaaaaaaaaaaaaa", fake.store.slots, 7}};
    then = [&] {                                 // the first time it hangs, the second time it is back
      fake.backend->gpus[0].health = fake.store.held.empty() ? model::Health::ok : model::Health::hung;
      fake.store.held.clear();
      until = 5;
    };
    until = 1;
    EXPECT_EQ(acquire(*fake.site, want(2), {}).chosen.size(), 2u);
    EXPECT_EQ(slept, 5);
    EXPECT_LE(most_looks, 3) << "who looks again and again without sleep with his ticket does not take his turn";
  }
}

TEST_F(LateDriver, WhoComesWhileItIsLateStandsInLineForWhatIsListed) {
  int told = 0;
  app::AcquireOptions options;
  options.caution = [&](const std::string& text) {
    told += text == "the driver has not answered about GPU 0 yet: waiting for it";
  };
  EXPECT_EQ(acquire(*fake.site, want(2), options).chosen.size(), 2u);
  EXPECT_EQ(slept, 4);
  EXPECT_EQ(told, 1);
  ASSERT_EQ(fake.store.entered.size(), 1u) << "the ticket is kept";
  EXPECT_EQ(fake.store.entered[0].eligible, fake.store.slots);
}

TEST_F(LateDriver, NoLookIsWaitedForBeyondTheEndOfTheWait) {
  auto request = want(2);
  request.wait = Seconds{10};
  until = 100;
  fake.site->patience = Millis{10'000};
  std::vector<Millis> left;                      // of the look, after each sleep
  fake.backend->on_read = [&](test::FakeBackend& backend) {
    if (slept > 0) left.push_back(backend.patience);
  };
  EXPECT_EQ(failure_of(fake, request), ErrorCode::unavailable);
  EXPECT_THAT(left, testing::ElementsAre(Millis{7'000}, Millis{4'000}, Millis{1'000}, Millis{200})) << "a sleep takes 3 s";
}

TEST_F(LateDriver, NothingIsTakenBeforeItAnswers) {
  fake.store.held = {{"aaaaaaaaaaaaaaaa", fake.store.slots, 7}};
  then = [&] {                                  // who has let it go does not say that it is well
    fake.store.held.clear();
    if (slept == 8) fake.backend->gpus[0].health = model::Health::ok;
    until = 8;
  };
  EXPECT_EQ(acquire(*fake.site, want(2), {}).chosen.size(), 2u);
  EXPECT_EQ(slept, 8);
}

TEST_F(LateDriver, AReleaseIsAnsweredWithoutALook) {
  woken = port::Wake::release;
  until = 4;
  then = [&] {
    EXPECT_EQ(fake.backend->reads, 1);
    fake.backend->gpus[0].health = model::Health::ok;
    woken = port::Wake::nudge;
  };
  EXPECT_EQ(acquire(*fake.site, want(2), {}).chosen.size(), 2u);
}

TEST_F(LateDriver, WhatTurnsOutToBeImpossibleIsRefusedThen) {
  then = [&] { fake.backend->gpus.resize(1); };
  EXPECT_EQ(failure_of(fake, want(2)), ErrorCode::usage);
  EXPECT_EQ(slept, 4);
}

TEST_F(LateDriver, AGpuThatTurnsOutToBePartitionedIsTakenAsAWhole) {
  then = [&] {
    model::Gpu& gpu = fake.backend->gpus[0];
    gpu.health = model::Health::ok;
    gpu.mig_mode = true;
    gpu.mig.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
      gpu.mig[i].uuid = fmt::format("MIG-{:08x}-0000-0000-0000-000000000000", i);
      gpu.mig[i].use = gpu.use;
      fake.store.slots.push_back(gpu.mig[i].uuid);
    }
  };
  auto request = want(1);
  request.on = {"0"};
  EXPECT_EQ(acquire(*fake.site, request, {}).claim.keys().size(), 2u);
  EXPECT_EQ(fake.store.entered.size(), 2u) << "nobody keeps a ticket for what he did not stand in line for";
}

TEST_F(LateDriver, ItIsUnavailableWhenTheWaitIsOver) {
  auto request = want(2);
  request.wait = Seconds{5};
  until = 100;
  EXPECT_EQ(failure_of(fake, request), ErrorCode::unavailable);
  EXPECT_EQ(slept, 2);
  request.wait = Seconds{0};
  EXPECT_EQ(failure_of(fake, request), ErrorCode::unavailable);
  EXPECT_EQ(slept, 2);
}

TEST_F(LateDriver, AGpuThatIsSickWhenItAnswersEndsNoWaitEither) {
  then = [&] {                                  // lost at first, and later well again
    fake.backend->gpus[0].health = slept < 8 ? model::Health::lost : model::Health::ok;
    until = 8;
  };
  EXPECT_EQ(acquire(*fake.site, want(2), {}).chosen.size(), 2u);
  EXPECT_EQ(slept, 8);
  EXPECT_EQ(fake.store.entered.size(), 1u) << "the ticket is kept";
}

TEST_F(LateDriver, AnInterruptEndsTheWait) {
  woken = port::Wake::other_fd;
  EXPECT_EQ(failure_of(fake, want(2)), ErrorCode::interrupted);
}

TEST_F(LateDriver, WhoCannotStandInLineLooksAgainAllTheSame) {
  fake.store.on_enter = [&] {
    if (looks < 3) throw Error(ErrorCode::unavailable, "the state directory does not know this unit");
  };
  fake.backend->on_read = [&](test::FakeBackend&) {
    if (++looks == 3) answers();
  };
  EXPECT_EQ(acquire(*fake.site, want(2), {}).chosen.size(), 2u);
  EXPECT_EQ(slept, 0);
}

}  // namespace
}  // namespace thole
