#include "base/same_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/fd.hpp"

namespace thole {
namespace {

// Its other name is somebody else's doing.
TEST(GivenUpFifo, IsToldByItsMarkWhateverOtherNamesItHas) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root's are looked at";
  char place[] = "/tmp/thole-test-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const std::string folder = place, gpu = folder + "/gpu", next = folder + "/new", other = folder + "/other";
  for (const mode_t mark : {mode_t{0}, being_taken, given_up}) {
    ASSERT_EQ(::mkfifo(gpu.c_str(), 0600), 0);
    const Fd held = open_at(AT_FDCWD, gpu.c_str(), O_RDWR | O_NONBLOCK);
    ASSERT_EQ(::link(gpu.c_str(), other.c_str()), 0);
    ASSERT_EQ(::fchmod(held.get(), 0600 | mark), 0);
    EXPECT_EQ(given_up_fifo_of_root(held.get()), "") << "it has its name: a killed process has left the mark";
    ASSERT_EQ(::mkfifo(next.c_str(), 0600), 0);
    ASSERT_EQ(std::rename(next.c_str(), gpu.c_str()), 0);
    EXPECT_EQ(given_up_fifo_of_root(held.get()), mark == 0 ? "" : gpu);
    ::unlink(other.c_str());
    EXPECT_EQ(given_up_fifo_of_root(held.get()), gpu) << "it has no name any more";
    ::unlink(gpu.c_str());
  }
  std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace thole
