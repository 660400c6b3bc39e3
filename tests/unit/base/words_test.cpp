#include "base/words.hpp"

#include <gtest/gtest.h>

namespace thole {
namespace {

TEST(Words, ACommandIsItsWords) {
  EXPECT_EQ(command_line({}), "");
  const std::string words[] = {"python", "train.py", "a b", ""};
  EXPECT_EQ(command_line(words), "python train.py 'a b' ''");
}

TEST(Words, CountsInWords) {
  EXPECT_EQ(plural(0, "GPU"), "0 GPUs");
  EXPECT_EQ(plural(1, "NUMA node"), "1 NUMA node");
  EXPECT_EQ(plural(2, "task"), "2 tasks");
}

}  // namespace
}  // namespace thole
