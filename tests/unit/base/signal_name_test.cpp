#include "base/signal_name.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string_view>

namespace thole {
namespace {

TEST(SignalName, EveryStandardSignalHasOneOfItsOwn) {
  std::set<std::string_view> names;
  for (int signal = 1; signal <= SIGSYS; ++signal) names.insert(signal_name(signal));
  EXPECT_EQ(names.size(), 31u);
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(signal_name(SIGKILL), "KILL");
  EXPECT_EQ(signal_name(SIGSEGV), "SEGV");
}

TEST(SignalName, OtherNumbersHaveNone) {
  for (int signal : {-1, 0, SIGSYS + 1, SIGRTMIN, SIGRTMAX, SIGRTMAX + 1}) EXPECT_EQ(signal_name(signal), "") << signal;
}

}  // namespace
}  // namespace thole
