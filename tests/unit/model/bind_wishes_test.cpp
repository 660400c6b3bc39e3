// What is said about binding, over what is not.
#include "model/bind_wishes.hpp"

#include <gtest/gtest.h>

namespace thole::model {
namespace {

TEST(BindWishes, SayNothingByThemselves) {
  for (const BindOptions& base : {BindOptions::for_command(), BindOptions::for_ranks()})
    EXPECT_EQ(BindWishes().over(base), base);
}

TEST(BindWishes, WhoNamesTheNodeMeansTheNode) {
  BindWishes wishes;
  ASSERT_TRUE(wishes.set_mode("node"));
  EXPECT_TRUE(BindOptions::for_command().widen);
  EXPECT_FALSE(wishes.over(BindOptions::for_command()).widen);
}

TEST(BindWishes, TheLineGoesOverTheConfiguration) {
  BindWishes site, line;
  ASSERT_TRUE(site.set_mode("exclusive"));
  ASSERT_TRUE(site.set_memory("bind:1"));
  site.lend = true;
  ASSERT_TRUE(line.set_mode("package"));
  ASSERT_TRUE(line.set_memory("preferred"));
  const BindOptions options = line.over(site.over(BindOptions::for_command()));
  EXPECT_EQ(options.mode, BindMode::package);
  EXPECT_EQ(options.memory, MemoryPolicy::preferred);
  EXPECT_FALSE(options.memory_nodes) << "the nodes belonged to the other policy";
  EXPECT_TRUE(options.lend);
}

TEST(BindWishes, OffTurnsEverythingOff) {
  BindWishes site, line;
  ASSERT_TRUE(site.set_memory("bind"));
  site.strict = true;
  site.threads = Threads{Threads::Mode::fixed, 4};
  line.off = true;
  const BindOptions options = line.over(site.over(BindOptions::for_ranks()));
  EXPECT_EQ(options.mode, BindMode::none);
  EXPECT_EQ(options.memory, MemoryPolicy::first_touch);
  EXPECT_EQ(options.nic, NicMode::none);
  EXPECT_EQ(options.threads, Threads());
  EXPECT_FALSE(options.strict);
}

TEST(BindWishes, RefuseWhatIsNothingKnown) {
  BindWishes wishes;
  for (const char* bad : {"", "socket", "core", "core:", "core:x", "node "}) EXPECT_FALSE(wishes.set_mode(bad)) << bad;
  for (const char* bad : {"", "local", "bind:", "bind:x", "first-touch:0", ":0"}) EXPECT_FALSE(wishes.set_memory(bad)) << bad;
  EXPECT_FALSE(wishes.mode || wishes.memory) << "and are unchanged";
}

}  // namespace
}  // namespace thole::model
