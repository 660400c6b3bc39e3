#include "base/aside.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/stream.hpp"

namespace thole {
namespace {

TEST(Bell, RingsUntilItIsSilenced) {
  Bell bell;
  EXPECT_FALSE(is_readable(bell.fd()));
  bell.ring();
  bell.ring();
  EXPECT_TRUE(is_readable(bell.fd()));
  bell.silence();
  EXPECT_FALSE(is_readable(bell.fd()));
}

TEST(Aside, TellsOfTheEndOfItsWork) {
  Bell may_end;
  bool done = false;
  AsideThread aside;
  aside.begin([&] { done = is_readable_by(may_end.fd(), std::nullopt); });
  EXPECT_FALSE(is_readable(aside.fd()));
  may_end.ring();
  EXPECT_TRUE(is_readable_by(aside.fd(), std::nullopt));
  EXPECT_EQ(aside.end(), nullptr);
  EXPECT_TRUE(done);
  EXPECT_FALSE(is_readable(aside.fd())) << "the next work is told of anew";
}

TEST(Aside, GivesWhatItsWorkHasThrownOnce) {
  AsideThread aside;
  aside.begin([] { throw std::runtime_error("no"); });
  EXPECT_TRUE(is_readable_by(aside.fd(), std::nullopt));
  const std::exception_ptr thrown = aside.end();
  ASSERT_NE(thrown, nullptr);
  EXPECT_THROW(std::rethrow_exception(thrown), std::runtime_error);
  EXPECT_EQ(aside.end(), nullptr);
}

TEST(Aside, IsWaitedForAtItsEnd) {
  Bell may_end;
  bool done = false;
  {
    AsideThread aside;
    aside.begin([&] { done = is_readable_by(may_end.fd(), std::nullopt); });
    may_end.ring();
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace thole
