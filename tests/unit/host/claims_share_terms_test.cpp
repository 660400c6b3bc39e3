#include "host/claims/share_terms.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_range.hpp"
#include "base/fd.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

class Terms : public testing::Test {
 protected:
  Terms() {
    EXPECT_EQ(::mkfifo(path().c_str(), 0600), 0);
    mine_ = open();
  }

  std::string path() const { return folder_.path + "/share"; }
  Fd open(int flags = O_RDWR) const { return open_at(AT_FDCWD, path().c_str(), flags | O_NONBLOCK); }

  // Somebody else's.
  Fd lock(short kind, off_t from, off_t length) const {
    Fd fd = open();
    struct flock range = byte_range(kind, from, length);
    EXPECT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &range), 0);
    return fd;
  }

  std::optional<ShareTerms> seen() const { return terms_on(open(O_RDONLY).get()); }

  claim_tests::TemporaryFolder folder_;
  Fd mine_;
};

TEST_F(Terms, AreReadAsTheyWereSaidAndEndWithTheirDescriptor) {
  EXPECT_FALSE(seen());
  EXPECT_FALSE(says_anything(open().get()));
  const std::uint64_t largest = (std::uint64_t{1} << 30) - 1;
  for (const std::uint64_t claim : {std::uint64_t{0}, number_of_claim("0123456789abcdef"), largest})
    for (const bool with_any : {true, false}) {
      ASSERT_TRUE(say_terms(mine_.get(), {claim, with_any, 8192}));
      EXPECT_EQ(seen(), (ShareTerms{claim, with_any, 8192}));
      EXPECT_TRUE(says_anything(open().get()));
      mine_ = open();
      EXPECT_FALSE(seen());
    }
  EXPECT_LE(number_of_claim("0123456789abcdef"), largest);
  EXPECT_NE(number_of_claim("0123456789abcdef"), number_of_claim("0123456789abcdee"));
}

TEST_F(Terms, OfAShareWithoutAFigureAreUnknown) {
  ASSERT_TRUE(say_terms(mine_.get(), {1, true, 0}));
  EXPECT_FALSE(seen());
}

TEST_F(Terms, AFigureBeyondAllMeasureIsSaidAsALargeOne) {
  ASSERT_TRUE(say_terms(mine_.get(), {1, true, std::numeric_limits<std::uint64_t>::max()}));
  EXPECT_EQ(seen(), (ShareTerms{1, true, std::uint64_t{1} << 31}));
}

// Each kind of lock that there can be beside it; `at`: where it begins.
TEST_F(Terms, LocksOfOthersSayNoLess) {
  const off_t range = off_t{1} << 32, begin = 10 * range, mib = 8192;   // of claim 5, for its own user alone
  const ShareTerms mine{5, false, mib};
  ASSERT_TRUE(say_terms(mine_.get(), mine));
  for (const auto kind : {short{F_RDLCK}, short{F_WRLCK}})
    for (const off_t from : {off_t{0}, range, begin - range, begin - 1, begin + mib, begin + range, 11 * range + 5}) {
      const Fd other = open();
      struct flock beside = byte_range(kind, from, 1);
      ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &beside), 0);
      EXPECT_FALSE(seen()) << from;
    }
  for (const off_t from : {off_t{0}, range, begin - range, begin - 1, begin, begin + 1, begin + mib - 1})
    for (const off_t to : {begin + 1, begin + mib - 1, begin + mib, begin + mib + 1, begin + range, begin + 2 * range,
                           off_t{0}}) {
      if (to != 0 && to <= from) continue;
      const Fd other = lock(F_RDLCK, from, to == 0 ? 0 : to - from);
      const auto terms = seen();
      if (terms) {
        EXPECT_FALSE(terms->with_any) << from << " to " << to;
        EXPECT_GE(terms->memory_mib, mine.memory_mib) << from << " to " << to;
      }
      // The kernel tells the lock that it meets first: whichever that is.
      const Fd again = lock(F_RDLCK, from, to == 0 ? 0 : to - from);
      EXPECT_TRUE(!seen() || (!seen()->with_any && seen()->memory_mib >= mine.memory_mib));
    }
  EXPECT_EQ(seen(), mine);
}

TEST_F(Terms, LocksThatWereThereBeforeSayNoLess) {
  const off_t range = off_t{1} << 32, begin = 10 * range;
  for (const off_t from : {off_t{0}, begin - range, begin - 1, begin, begin + 1})
    for (const off_t to : {begin + 2, begin + 8192, begin + 9000, begin + range + 1, off_t{0}}) {
      const Fd other = lock(F_RDLCK, from, to == 0 ? 0 : to - from);
      EXPECT_TRUE(says_anything(mine_.get()));
      ASSERT_TRUE(say_terms(mine_.get(), {5, false, 8192}));
      const auto terms = seen();
      EXPECT_TRUE(!terms || (!terms->with_any && terms->memory_mib >= 8192)) << from << " to " << to;
      mine_ = open();
    }
}

TEST_F(Terms, AreNotSaidWhereAWriteLockIsInTheWay) {
  const Fd other = lock(F_WRLCK, (off_t{11} << 32) + 100, 1);
  EXPECT_FALSE(say_terms(mine_.get(), {5, true, 8192}));
  EXPECT_TRUE(say_terms(mine_.get(), {5, true, 99}));
}

TEST_F(Terms, ABerthThatIsSaidToBeTakenIsSoOnTheUnitAlone) {
  for (unsigned k = 0; k < 16; ++k) EXPECT_FALSE(is_said_taken(open().get(), k));
  ASSERT_TRUE(say_taken(mine_.get(), 3));
  for (unsigned k = 0; k < 16; ++k) EXPECT_EQ(is_said_taken(open(O_RDONLY).get(), k), k == 3);
  mine_ = open();
  EXPECT_FALSE(is_said_taken(open().get(), 3));
}

}  // namespace
}  // namespace thole::host
