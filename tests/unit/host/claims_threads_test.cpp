// One store used by several threads at once, as store.hpp allows. What they must not find is best shown by the thread
// sanitizer (docs/testing.md).
#include <array>
#include <atomic>

#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

using Threads = ClaimStoreTest;

// Runs each of the functions in a thread of its own, again and again, until the first of them has been called `times` times
// and every other at least once. What one throws ends all, and is the result.
std::string run_beside(unsigned times, const std::vector<std::function<void()>>& functions) {
  std::vector<std::atomic<unsigned>> calls(functions.size());
  std::atomic<bool> failed = false;
  std::string why;
  const auto over = [&] {
    return failed || (calls[0] >= times && std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n > 0; }));
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < functions.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        for (; !over(); ++calls[i]) functions[i]();
      } catch (const std::exception& error) {
        if (!failed.exchange(true)) why = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return why;
}

TEST_F(Threads, EveryFunctionOfAStoreMayRunBesideEveryOther) {
  auto store = open();
  auto outer = entry({"GPU-3"});
  outer.id = "fedcba9876543210";
  const auto held = try_claim(*store, outer);
  ASSERT_TRUE(held);
  std::array<std::atomic<int>, 3> owners{};
  std::atomic<bool> twice = false;
  const auto own = [&](const port::Entry& wanted) {
    const auto won = claim(*store, wanted, Seconds(60));
    if (!won) throw std::runtime_error("not served");
    for (const std::string& key : won->keys())
      if (owners[static_cast<std::size_t>(key.back() - '0')]++ != 0) twice = true;
    for (const std::string& key : won->keys()) --owners[static_cast<std::size_t>(key.back() - '0')];
  };
  std::atomic<int> next = 4;
  const std::string why = run_beside(30, {
      [&] { own(entry({"GPU-0", "GPU-1"}, 2)); },
      [&] { own(entry({"GPU-1", "GPU-0"}, 1)); },
      [&] { claim(*store, sharer({"GPU-2"}, 100), Seconds(60)); },
      [&] { claim(*store, sharer({"GPU-2"}, 100), Seconds(60)); },
      [&] { store->holdings(), store->waiting(); },
      [&] { store->wanted_by(*held), store->about(); },
      [&] { if (store->own_claim(held->id()) != held->keys()) throw std::runtime_error("the claim is not there"); },
      [&] { store->amend(held->id(), WallTime(Seconds(2'000'000'000 + next)), std::nullopt); },
      [&] { claim(*store->within(held->id()), entry({"GPU-3"}), Seconds(60)); },
      [&] { if (next < 40) store->enter(entry({"GPU-" + std::to_string(next++)})); },
  });
  EXPECT_EQ(why, "");
  EXPECT_FALSE(twice);
}

TEST_F(Threads, AChildOfAForkMayBeginWithSeveralAtOnce) {
  auto store = open();
  const auto held = try_claim(*store, entry({"GPU-3"}));
  for (unsigned round = 0; round < 20; ++round) {
    Child child([&](Child&) {
      std::atomic<int> ready = 0, won = 0;
      std::vector<std::thread> threads;
      for (const char* unit : {"GPU-0", "GPU-1", "GPU-2", "GPU-3"})
        threads.emplace_back([&, unit] {
          for (++ready; ready < 4;) std::this_thread::yield();
          if (try_claim(*store, entry({unit}))) ++won;
        });
      for (std::thread& thread : threads) thread.join();
      return won == 3 ? 0 : 1;
    });
    ASSERT_EQ(child.wait(), 0) << "round " << round;
  }
}

}  // namespace
}  // namespace thole::host::claim_tests
