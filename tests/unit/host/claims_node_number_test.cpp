// The number of a node is no other's, not even where the file system gives its inode again.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

// Made anew until the clock that stamps files has gone on, which it does every few milliseconds.
NodeNumber made_later(const std::string& path, const NodeNumber& first) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    const NodeNumber next = made_at(path);
    if (first.born == 0 || next.born != first.born || std::chrono::steady_clock::now() > end) return next;
  }
}

TEST(ClaimNodeNumber, AFileInThePlaceOfAnotherIsNotIt) {
  char folder[] = "/tmp/thole-test-XXXXXX";   // on a disk, where inodes are given again
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/gpu.GPU-0";
  const NodeNumber first = made_at(path);
  ASSERT_NE(first.inode, 0u);
  EXPECT_TRUE(first.is(node_number_of(Fd(::open(path.c_str(), O_RDWR)).get())));
  EXPECT_TRUE(first.is({.inode = first.inode})) << "who cannot see more of it";
  NodeNumber next = made_later(path, first);
  std::filesystem::remove_all(folder);
  next.inode = first.inode;                   // whatever gives it out
  EXPECT_EQ(first.is({.inode = next.inode, .born = next.born}), first.born == 0) << "by when it was made";
  EXPECT_EQ(first.is({.inode = next.inode, .generation = next.generation}), first.generation == 0) << "by its handle";
}

// 77: no overlay can be mounted here.
int number_in_an_overlay_stays(const std::string& folder) {
  for (const char* part : {"/lower", "/upper", "/work", "/all"}) ::mkdir((folder + part).c_str(), 0755);
  ::mkfifo((folder + "/lower/gpu.GPU-0").c_str(), 0666);
  const std::string parts = fmt::format("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", folder);
  const std::string all = folder + "/all";
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("overlay", all.c_str(), "overlay", 0, parts.c_str()) != 0)
    return 77;
  const Fd node(::open((all + "/gpu.GPU-0").c_str(), O_RDWR | O_NONBLOCK));
  settle_number(node.get());
  const NodeNumber before = node_number_of(node.get());
  if (::utimensat(AT_FDCWD, (all + "/gpu.GPU-0").c_str(), nullptr, 0) != 0) return 1;
  return before.inode != 0 && before.is(node_number_of(node.get())) ? 0 : 2;
}

TEST(ClaimNodeNumber, InAnOverlayItIsNoOtherAfterAChange) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(number_in_an_overlay_stays(folder.path));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs root, and overlays";
  EXPECT_EQ(status, 0);
}

TEST(ClaimNodeNumber, WhatCannotBeSeenHasNone) { EXPECT_EQ(node_number_of(-1).inode, 0u); }

}  // namespace
}  // namespace thole::host::claim_tests
