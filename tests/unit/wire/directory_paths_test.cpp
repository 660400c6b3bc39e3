#include "wire/directory_paths.hpp"

#include <gmock/gmock.h>

#include "host/store/queue_dir.hpp"

namespace thole::wire {
namespace {

using ::testing::MatchesRegex;

TEST(DirectoryPaths, AQueueIsNamedByItsMachineAndByItsClaims) {
  Settings settings({}, 1000, "/usr/bin/thole");
  EXPECT_EQ(DirectoryPaths(settings).queue("").machine, "");
  EXPECT_EQ(DirectoryPaths(settings).queue("machine-2xA100").machine, "machine-2xA100");
  settings.state_dir = "/srv/claims";
  EXPECT_THAT(DirectoryPaths(settings).queue("").machine, MatchesRegex("machine-claims-[0-9a-f]{8}"));
  EXPECT_THAT(DirectoryPaths(settings).queue("machine-2xA100").machine, MatchesRegex("machine-2xA100-claims-[0-9a-f]{8}"));
}

}  // namespace
}  // namespace thole::wire
