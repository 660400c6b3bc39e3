// The number of a node is no other's, not even where the file system gives its inode again.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "host/claims/node_number.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

NodeNumber made_at(const std::string& path) {
  ::unlink(path.c_str());
  if (::mkfifo(path.c_str(), 0600) != 0) return {};
  return node_number_of(Fd(::open(path.c_str(), O_PATH)).get());
}

// Until the clock that stamps files has gone on, which it does every few milliseconds.
NodeNumber made_later(const std::string& path, const NodeNumber& first) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    const NodeNumber next = made_at(path);
    if (first.born_ns == 0 || next.born_ns != first.born_ns || std::chrono::steady_clock::now() > end) return next;
  }
}

TEST(ClaimNodeNumber, AFileInThePlaceOfAnotherIsNotIt) {
  char folder[] = "/tmp/thole-test-XXXXXX";   // on a disk, where inodes are given again
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/gpu.GPU-0";
  const NodeNumber first = made_at(path);
  ASSERT_NE(first.inode, 0u);
  EXPECT_TRUE(first.is(node_number_of(Fd(::open(path.c_str(), O_RDWR)).get())));
  EXPECT_TRUE(first.is({.inode = first.inode})) << "who cannot see when it was made";
  const NodeNumber next = made_later(path, first);
  std::filesystem::remove_all(folder);
  if (first.born_ns == 0 && next.inode == first.inode) GTEST_SKIP() << "/tmp gives inodes again, and does not say when";
  EXPECT_FALSE(first.is(next)) << first.inode << ' ' << first.born_ns << ", then " << next.inode << ' ' << next.born_ns;
}

TEST(ClaimNodeNumber, WhatCannotBeSeenHasNone) { EXPECT_EQ(node_number_of(-1).inode, 0u); }

}  // namespace
}  // namespace thole::host::claim_tests
