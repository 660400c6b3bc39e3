// The end of claims without a command, over a store in memory and a keeper that says that it let go.
#include "app/claim/holding.hpp"

#include <gtest/gtest.h>

#include "support/fake_site.hpp"
#include "support/said.hpp"

namespace thole {
namespace {

struct Obedient final : port::ClaimControl {
  std::unique_ptr<port::ClaimDoor> open(port::DoorSpec) override { return nullptr; }
  port::ClaimAbout describe(const port::ClaimAddress&) override { return {}; }
  void release(const port::ClaimAddress&) override {}
  std::optional<port::Ending> ending(const port::ClaimAddress&) override { return std::nullopt; }
  std::string ways_to_end(const std::string&, uid_t) override { return ""; }
  void extend(const port::ClaimAddress&, WallTime) override {}
  std::vector<Fd> descriptors(const port::ClaimAddress&, const port::CheckLocks&) override { return {}; }
  std::string hold(const port::HoldSpec&, const std::function<port::ToHold(const port::HoldCaller&)>&) override { return ""; }
};

struct Release : testing::Test {
  // What is said when the claim of process 77 is released and this is held after it.
  std::string after(const test::FakeStore::Held& left) {
    fake.store.held = {left};
    const app::ClaimSearch search{.store = &fake.store,
                                  .environment = environment,
                                  .directory = {},
                                  .gpus = [this]() -> const app::Observer& { return *fake.observer; },
                                  .user_name = [](uid_t) { return "anna"; }};
    app::KeptClaim claim{"0123456789abcdef", {fake.store.slots[0]}, 1000, 77, "thole claim", ""};
    return test::said([&] { app::release(search, control, claim); });
  }

  static constexpr const char* released = "nothing was thrown";
  test::FakeSite fake{2};
  plan::Environment environment;
  Obedient control;
};

TEST_F(Release, WhatIsHeldStillIsSaid) {
  const std::vector<std::string> its{fake.store.slots[0]}, another{fake.store.slots[1]};
  EXPECT_NE(after({"0123456789abcdef", its, 1000}).find("still held: claim 0123456789abcdef goes on"), std::string::npos);
  EXPECT_EQ(after({"0123456789abcdef", its, 1001}), released) << "another user's";
  EXPECT_EQ(after({"0123456789abcdef", another, 1000}), released) << "another unit";
  EXPECT_EQ(after({"fedcba9876543210", its, 1000}), released) << "the user's next claim";
}

TEST_F(Release, WhoHasTheLockWithoutANoteIsTheOldOneOnlyAsTheProcessThatHadIt) {
  const std::vector<std::string> its{fake.store.slots[0]};
  EXPECT_NE(after({.id = "", .keys = its, .uid = 1000, .pid = 77}).find("still held"), std::string::npos);
  EXPECT_EQ(after({.id = "", .keys = its, .uid = 1000, .pid = 78}), released);
  EXPECT_EQ(after({.id = "", .keys = its, .uid = 1000, .pid = 0}), released) << "nobody knows who";
}

}  // namespace
}  // namespace thole
