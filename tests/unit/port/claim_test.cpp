#include "port/claim.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/fd.hpp"

namespace thole::port {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

Fd some_lock() { return open_at(AT_FDCWD, "/dev/null", O_RDWR); }

// Of one unit, with a note and the locks of one claim around it.
struct Made {
  Made() {
    ClaimParts parts;
    parts.id = "inner";
    parts.keys = {"GPU-0"};
    parts.locks.push_back(some_lock());
    parts.locks.add_note(some_lock());
    claim = Claim(Claim::State::held, std::move(parts));
    ClaimLocks around;
    around.push_back(some_lock());
    claim.keep_around(std::move(around));
  }
  Claim claim;
};

TEST(Claim, ReleasedItKeepsNothingButItsName) {
  Claim claim = std::move(Made().claim);
  claim.lies_within("outer");
  const std::vector<int> all = claim.all_descriptors();
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(claim.descriptors().size(), 2u);
  claim.release();
  EXPECT_THAT(all, testing::Each(testing::Not(testing::Truly(is_open))));
  EXPECT_EQ(claim.state(), Claim::State::none);
  EXPECT_FALSE(claim.is_held());
  EXPECT_EQ(claim.id(), "outer/inner");
  EXPECT_TRUE(claim.all_descriptors().empty());
}

TEST(Claim, ReleasedToItsNoteLeavesThatOpenAlone) {
  Claim claim = std::move(Made().claim);
  const std::vector<int> own = claim.descriptors();
  const Fd note = claim.release_to_note();
  EXPECT_EQ(note.get(), own.back());
  EXPECT_TRUE(is_open(own.back()));
  EXPECT_FALSE(is_open(own.front()));
  EXPECT_EQ(claim.state(), Claim::State::none);
}

TEST(Claim, IsHeldByOneValueOnly) {
  Made made;
  Claim other = std::move(made.claim);
  EXPECT_TRUE(other.is_held());
  EXPECT_EQ(made.claim.state(), Claim::State::none);   // NOLINT: what is told of one that was moved from
  const std::vector<int> all = other.all_descriptors();
  other = Claim("another");
  EXPECT_THAT(all, testing::Each(testing::Not(testing::Truly(is_open))));
  EXPECT_FALSE(other.is_held());
}

TEST(Claim, OfAllOfAnotherNothingWasTaken) {
  EXPECT_TRUE(Claim(Claim::State::reused, ClaimParts()).is_all_of_another());
  EXPECT_TRUE(Claim(Claim::State::joined, ClaimParts()).is_all_of_another());
  EXPECT_FALSE(Made().claim.is_all_of_another());
  EXPECT_FALSE(Claim("of no unit").is_all_of_another());
}

}  // namespace
}  // namespace thole::port
