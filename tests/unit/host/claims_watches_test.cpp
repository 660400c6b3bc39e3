#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "host/claims/watches.hpp"

namespace thole::host {
namespace {

class WatchesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "thole-watches-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string fifo(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  static Fd open(const std::string& path, int flags) { return open_at(AT_FDCWD, path.c_str(), flags | O_NONBLOCK); }
  static Fd locked(const std::string& path) {
    Fd fd = open(path, O_RDWR);
    EXPECT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), 0);
    return fd;
  }

  std::string folder_;
};

TEST_F(WatchesTest, ALockThatIsHeldIsWatchedAndItsEndIsHeard) {
  const std::string node = fifo("node");
  Fd owner = locked(node);
  Watches watches;
  EXPECT_EQ(watches.add([&](int flags) { return open(node, flags); }, port::Wake::release), Watches::Seen::held);
  EXPECT_EQ(watches.size(), 1u);
  EXPECT_FALSE(watches.any_event(Millis{0}));
  owner.reset();
  EXPECT_TRUE(watches.any_event(Millis{10'000}));
}

// The owner lets go after the lock was tried and before the watch is looked at: nobody would wake the waiter.
TEST_F(WatchesTest, ALockThatGoesBetweenTrialAndLookIsTriedAgain) {
  const std::string node = fifo("node"), of_another = fifo("another");
  Fd owner = locked(node);
  const Fd another = locked(of_another);
  int trials = 0;
  Watches watches;
  const auto seen = watches.add(
      [&](int flags) {
        if (flags == O_RDONLY || ++trials > 1) return open(node, flags);
        Fd refused = open(of_another, flags);              // as the node's own lock, had it gone a moment later
        owner.reset();
        return refused;
      },
      port::Wake::release);
  EXPECT_EQ(seen, Watches::Seen::free);
  EXPECT_EQ(trials, 2);
}

// flock(1) locks through a descriptor that cannot write: it hangs up always.
TEST_F(WatchesTest, ALockThatGivesNoSignIsLeftToTheNextLook) {
  const std::string node = fifo("node");
  Fd reader = open(node, O_RDONLY);
  { Fd writer = open(node, O_RDWR); }
  ASSERT_EQ(::flock(reader.get(), LOCK_EX | LOCK_NB), 0);
  Watches watches;
  EXPECT_EQ(watches.add([&](int flags) { return open(node, flags); }, port::Wake::release), Watches::Seen::held);
  EXPECT_EQ(watches.size(), 0u) << "it would wake the waiter without end";
}

}  // namespace
}  // namespace thole::host
