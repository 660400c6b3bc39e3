// Whether logind ends what a user leaves running.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "host/queue/local_door.hpp"
#include "host/surroundings/logout.hpp"

namespace thole::host {
namespace {

TEST(QueueRunner, SettingsOfLogindAreReadAsItReadsThem) {
  EXPECT_FALSE(ends_with_the_session(""));
  EXPECT_FALSE(ends_with_the_session("[Login]\n#KillUserProcesses=yes\n"));
  EXPECT_TRUE(ends_with_the_session("[Login]\nKillUserProcesses=yes\n"));
  EXPECT_FALSE(ends_with_the_session("KillUserProcesses=yes\nKillUserProcesses=no\n"));
}

TEST(Logout, IsReadFromLogindsFilesAndTheUsersMark) {
  std::string root = std::filesystem::temp_directory_path() / "thole_logout_XXXXXX";
  ASSERT_TRUE(::mkdtemp(root.data()));
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + name).parent_path());
    std::ofstream(root + name) << text;
  };
  const Tree tree(root);
  EXPECT_FALSE(read_logout(tree, "anna").logind);
  put("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n");
  put("/etc/systemd/logind.conf.d/10-lab.conf", "[Login]\nKillUserProcesses=yes\n");
  EXPECT_FALSE(read_logout(tree, "anna").ends_all) << "nobody reads them here";
  put("/run/systemd/seats/seat0", "");
  EXPECT_TRUE(read_logout(tree, "anna").ends_all);
  put("/etc/systemd/logind.conf.d/20-later.conf", "[Login]\nKillUserProcesses=no\n");
  EXPECT_FALSE(read_logout(tree, "anna").ends_all);
  put("/var/lib/systemd/linger/anna", "");
  EXPECT_TRUE(read_logout(tree, "anna").lingers);
  EXPECT_FALSE(read_logout(tree, "ann").lingers);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace thole::host
