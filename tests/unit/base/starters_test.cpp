#include "base/starters.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace thole::test {
namespace {

// As env(1) of coreutils 9.1 has them.
TEST(Starters, EnvSplitsItsTextItsOwnWay) {
  for (const auto& [text, words] : {std::pair{" python3 -u\r", "python3|-u"},
                                    {R"(a\_b "a\_b" 'a\_b' \"z x#y)", R"(a|b|a b|a\_b|"z|x#y)"},
                                    {R"(a 'b c'd '' "e'f" '\'\\n' \t)", "a|b cd||e'f|'\\n|\t"},
                                    {"a #b\nc", "a"},
                                    {R"(a b\c d)", "a|b"},
                                    {R"(\$A '$A')", "$A|$A"}}) {
    const auto split = words_of_env(text);
    ASSERT_TRUE(split) << text;
    EXPECT_EQ(join(*split, "|"), words) << text;
  }
  for (const char* text : {"${A}", "\"${A}\"", "'a", "\"a", "a\\", "\\q", "\"a\\c\""})
    EXPECT_EQ(words_of_env(text), std::nullopt) << text;
}

TEST(Starters, WhatEnvChangesForItsCommandIsTold) {
  const auto started = [](std::vector<std::string> words) { return started_by(words).value(); };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"env", "PATH=/x", "it"}, {"env", "-i", "it"}, {"env", "--ignore", "it"}, {"env", "-", "it"},
        {"env", "-uPATH", "it"}, {"env", "-S", "PATH=/x it"}})
    EXPECT_TRUE(started(words).other_path) << join(words, " ");
  EXPECT_FALSE(started({"env", "-u", "A", "B=1", "it"}).other_path);
  EXPECT_EQ(started({"/usr/bin/env", "-C", "d", "A=1", "it", "more"}).directory, "d");
  EXPECT_EQ(join(started({"env", "-vS", "nice -n 5", "it", "more"}).command, "|"), "nice|-n|5|it|more");
  EXPECT_FALSE(started_by(std::vector<std::string>{"env", "A=1"}));
  EXPECT_FALSE(started_by(std::vector<std::string>{"timeout", "1h"}));
  EXPECT_FALSE(started_by(std::vector<std::string>{"python3", "it"}));
}

}  // namespace
}  // namespace thole::test
