#include "cli/output.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "cli/show/terminal.hpp"

namespace thole::cli {
namespace {

TEST(Output, NothingButLinesAndTheProgramsColoursReachesATerminal) {
  const Screen screen{.columns = 80, .rows = 24, .colors = true};
  const std::string own = ink(screen, Ink::red, "bad") + "\n" + ink(screen, Ink::bold, "naïve…");
  EXPECT_EQ(for_terminal(own, true), own);
  EXPECT_EQ(for_terminal("a\x1b]0;t\x07\x1b[7mb\x1b[31", true), "a\\x1b]0;t\\x07\\x1b[7mb\\x1b[31");
  EXPECT_EQ(for_terminal("\xc2\x9b" "31m \xff \x7f\r\v", true), "\\x9b31m \\xff \\x7f\\x0d\\x0b");
  EXPECT_EQ(for_terminal("\n\nx\n", true), "\n\nx\n");
  EXPECT_EQ(for_terminal("0\tGPU-\xff\tA100\n", false), "0\tGPU-\\xff\tA100\n") << "columns of a list";
}

TEST(Output, WithoutColoursNotEvenThosePass) {
  EXPECT_EQ(for_terminal("\x1b[31mred\x1b[0m\n", false), "\\x1b[31mred\\x1b[0m\n");
}

TEST(Output, AFrameMovesTheCursorAndItsTextDoesNot) {
  EXPECT_EQ(frame_of("a\x1b[2J\nb\nc\n", true, 3, true),
            "\x1b[2J\x1b[Ha\\x1b[2J\x1b[K\n(2 more lines: the screen is too low)\x1b[K\n\x1b[J");
  EXPECT_EQ(frame_of("a\n", true, 3, false), "\x1b[Ha\x1b[K\n\x1b[J");
}

TEST(Output, AnErrorsObjectIsOneLineOfPlainText) {
  EXPECT_EQ(Error(ErrorCode::usage, "no such job").about("a\nb\x1b[31m").full(), "no such job: a\\x0ab\\x1b[31m");
}

}  // namespace
}  // namespace thole::cli
