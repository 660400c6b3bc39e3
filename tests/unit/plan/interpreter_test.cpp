#include "plan/job/interpreter.hpp"

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
  return plan::script_in(words);
}

TEST(Interpreter, ItsScriptStandsBehindItsOptions) {
  for (const char* line : {"python3 it --lr 1", "/usr/bin/python3.11 it", ".venv/bin/python -u it", "python -W ignore it",
                           "python -Wignore -X dev -OO it", "bash -x it", "sh -eu it", "bash -o pipefail it", "bash -- it",
                           "bash --norc it", "perl -w -I lib it", "Rscript --vanilla it", "bash --rcfile F it",
                           "bash --init-file F -e it", "bash +x it", "bash +O extglob -O nullglob it", "bash -oe pipefail it",
                           "bash - it", "zsh -oerrexit it", "zsh --emulate sh it", "fish -C true it",
                           "fish --init-command true it", "python3 --check-hash-based-pycs always it", "perl -x it",
                           "julia --threads 4 -O it", "julia --project it"})
    EXPECT_EQ(script_in(line), "it") << line;
}

TEST(Interpreter, WhatOnlyStartsAnotherMayStandBefore) {
  for (const char* line : {"env A=1 B=2 python it", "env -u HOME -i python it", "nice -n 5 python -u it", "nohup bash it",
                           "timeout -k 5s 1h python it", "stdbuf -oL -e L python it", "nice env A=1 timeout 1h sh -e it",
                           "timeout --signal INT --kill-after=5s 1h sh it", "timeout --kill 5s -s INT 1h sh it",
                           "nice --adjustment 5 sh it", "nice -5 sh it", "stdbuf --output L --err 0 sh it",
                           "env --unset A sh it", "env --ignore-environment sh it", "env - A=1 sh it"})
    EXPECT_EQ(script_in(line), "it") << line;
  EXPECT_EQ(script_in("nice ./it"), "./it");
}

TEST(Interpreter, EqualSignsAreAssignmentsBehindEnvOnly) {
  EXPECT_EQ(script_in("nice lr=0.1/it"), "lr=0.1/it");
  EXPECT_EQ(script_in("timeout 2h lr=0.1/it"), "lr=0.1/it");
  EXPECT_EQ(script_in("env lr=0.1/it ./it"), "./it");
}

TEST(Interpreter, EnvSplitsWordsOfItsOwnAndChangesDirectory) {
  for (const char* first : {"-S", "-vS", "--split-string", "--split"})
    EXPECT_EQ(plan::script_in(std::vector<std::string>{"env", first, "-i A=1 bash -e", "it"}), "it") << first;
  EXPECT_EQ(plan::script_in(std::vector<std::string>{"env", "--split-string=bash it", "--lr"}), "it");
  EXPECT_EQ(plan::script_in(std::vector<std::string>{"env", "-S", "bash ${HOME}/it"}), std::nullopt);
  EXPECT_EQ(script_in("env -C runs sh it"), "runs/it");
  EXPECT_EQ(script_in("env --chdir=/runs nice -n 1 ./it"), "/runs/./it");
  EXPECT_EQ(script_in("env -C runs /it"), "/it");
}

TEST(Interpreter, CodeInTheLineIsNoScript) {
  for (const char* line : {"python -c it", "python -um it", "bash -lc it", "sh -s it", "perl -e it", "python -", "python",
                           "env A=1", "timeout 1h", "make it", "./it", "env -S it", "bash --rcfile F -c it",
                           "fish --command it", "julia --eval it"})
    EXPECT_EQ(script_in(line), std::nullopt) << line;
}

TEST(Interpreter, AMereDashEndsTheOptionsOfAShellOnly) {
  using Words = std::vector<std::string>;
  EXPECT_TRUE(plan::awaits_script(Words{"bash", "-"}));
  EXPECT_FALSE(plan::awaits_script(Words{"bash", "-", "it"}));
  EXPECT_TRUE(plan::awaits_script(Words{"python3", "-", "it"}));
}

}  // namespace
}  // namespace thole::test
