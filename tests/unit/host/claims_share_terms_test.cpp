#include "host/claims/share_terms.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_range.hpp"
#include "base/fd.hpp"

namespace thole::host {
namespace {

class Terms : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "thole-terms-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ASSERT_EQ(::mkfifo((folder_ + "/share").c_str(), 0600), 0);
    mine_ = open();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Fd open(int flags = O_RDWR) const { return open_at(AT_FDCWD, (folder_ + "/share").c_str(), flags | O_NONBLOCK); }

  // Somebody else's.
  Fd lock(short kind, off_t from, off_t length) const {
    Fd fd = open();
    struct flock range = byte_range(kind, from, length);
    EXPECT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &range), 0);
    return fd;
  }

  std::optional<ShareTerms> seen() const { return terms_on(open(O_RDONLY).get()); }

  std::string folder_;
  Fd mine_;
};

TEST_F(Terms, AreReadAsTheyWereSaidAndEndWithTheirDescriptor) {
  EXPECT_FALSE(seen());
  EXPECT_FALSE(says_anything(open().get()));
  for (const bool with_any : {true, false}) {
    ASSERT_TRUE(say_terms(mine_.get(), {with_any, 8192}));
    EXPECT_EQ(seen(), (ShareTerms{with_any, 8192}));
    EXPECT_TRUE(says_anything(open().get()));
    mine_ = open();
    EXPECT_FALSE(seen());
  }
}

TEST_F(Terms, OfAShareWithoutAFigureAreUnknown) {
  ASSERT_TRUE(say_terms(mine_.get(), {true, 0}));
  EXPECT_FALSE(seen());
  ASSERT_TRUE(say_terms(mine_.get(), {false, 0}));
  EXPECT_FALSE(seen());
}

TEST_F(Terms, AFigureBeyondAllMeasureIsSaidAsALargeOne) {
  ASSERT_TRUE(say_terms(mine_.get(), {true, std::numeric_limits<std::uint64_t>::max()}));
  ASSERT_TRUE(seen());
  EXPECT_GT(seen()->memory_mib, std::uint64_t{1} << 36);
}

TEST_F(Terms, LocksOfOthersOnlyAddToThem) {
  ASSERT_TRUE(say_terms(mine_.get(), {true, 8192}));
  {
    const Fd within = lock(F_RDLCK, 5, 100), beside = lock(F_RDLCK, 8000, 1193);
    EXPECT_EQ(seen(), (ShareTerms{true, 9192}));
    const Fd private_ = lock(F_RDLCK, 0, 1), far = lock(F_WRLCK, 20001, 1000);
    EXPECT_EQ(seen(), (ShareTerms{false, 21000}));
    const Fd endless = lock(F_RDLCK, 30000, 0);
    EXPECT_FALSE(seen());
  }
  EXPECT_EQ(seen(), (ShareTerms{true, 8192}));
  std::vector<Fd> many;
  for (off_t i = 0; i < 100; ++i) many.push_back(lock(F_RDLCK, 10000 + 2 * i, 1));
  EXPECT_FALSE(seen()) << "they are not all gone through";
}

TEST_F(Terms, AreNotSaidWhereAWriteLockIsInTheWay) {
  const Fd other = lock(F_WRLCK, 100, 1);
  EXPECT_TRUE(says_anything(mine_.get()));
  EXPECT_FALSE(say_terms(mine_.get(), {true, 8192}));
  EXPECT_TRUE(say_terms(mine_.get(), {true, 99}));
}

}  // namespace
}  // namespace thole::host
