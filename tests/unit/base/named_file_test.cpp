#include "base/named_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace thole {
namespace {

// Somebody who can give it one (fs.protected_hardlinks) takes it away as soon as it is open.
TEST(NamedFile, ASecondNameThatComesAndGoesIsNoneOfOnesOwn) {
  char place[] = "/tmp/thole-test-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const std::string precious = std::string(place) + "/precious", shared = std::string(place) + "/shared";
  const std::string name = shared + "/log";
  std::ofstream(precious) << "mine";
  ASSERT_EQ(::mkdir(shared.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      (void)!::link(precious.c_str(), name.c_str());
      ::unlink(name.c_str());
    }
  });
  unsigned refused = 0, taken = 0;
  for (int tries = 0; tries < 20'000; ++tries) try {
      taken += static_cast<bool>(find_named_file(name, "cannot write").there);
    } catch (const Error&) {
      ++refused;
    }
  over = true;
  other.join();
  std::filesystem::remove_all(place);
  EXPECT_EQ(taken, 0u) << refused << " refused";
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace thole
