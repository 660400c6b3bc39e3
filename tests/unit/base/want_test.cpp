#include "base/want.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace thole {
namespace {

TEST(Want, OfProcessesMemoryAndDescriptorsIsOneAndWhatIsWrongWithAProgramIsNone) {
  for (const int want : {EAGAIN, ENOMEM, EMFILE, ENFILE}) EXPECT_TRUE(is_want(want)) << want;
  for (const int other : {0, ENOENT, EACCES, ENOEXEC, ELOOP}) EXPECT_FALSE(is_want(other)) << other;
}

}  // namespace
}  // namespace thole
