#include "plan/interpreter.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace thole::test {
namespace {

std::optional<std::string> script_in(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' ')) words.emplace_back(word);
  const auto at = plan::script_word(words);
  return at ? std::optional(words.at(*at)) : std::nullopt;
}

TEST(Interpreter, ItsScriptStandsBehindItsOptions) {
  for (const char* line : {"python3 it --lr 1", "/usr/bin/python3.11 it", ".venv/bin/python -u it", "python -W ignore it",
                           "python -Wignore -X dev -OO it", "bash -x it", "sh -eu it", "bash -o pipefail it", "bash -- it",
                           "bash --norc it", "perl -w -I lib it", "Rscript --vanilla it"})
    EXPECT_EQ(script_in(line), "it") << line;
}

TEST(Interpreter, WhatOnlyStartsAnotherMayStandBefore) {
  for (const char* line : {"env A=1 B=2 python it", "env -u HOME -i python it", "nice -n 5 python -u it", "nohup bash it",
                           "timeout -k 5s 1h python it", "stdbuf -oL -e L python it", "nice env A=1 timeout 1h sh -e it"})
    EXPECT_EQ(script_in(line), "it") << line;
  EXPECT_EQ(script_in("nice ./it"), "./it");
}

TEST(Interpreter, CodeInTheLineIsNoScript) {
  for (const char* line : {"python -c it", "python -um it", "bash -lc it", "sh -s it", "perl -e it", "python -", "python",
                           "env A=1", "timeout 1h", "make it", "./it", "env -S it"})
    EXPECT_EQ(script_in(line), std::nullopt) << line;
}

}  // namespace
}  // namespace thole::test
