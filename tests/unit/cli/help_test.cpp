#include "cli/line/help.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

using namespace thole;
using namespace thole::cli;
using testing::HasSubstr;

TEST(Help, FitsEightyColumns) {
  std::string all = general_help();
  for (const Verb& verb : verbs()) all += help_of(verb);
  for (std::string_view line : split_lines(all)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Help, ShowsTheVerbsInTheirGroupsAndNoMachinery) {
  const std::string text = general_help();
  EXPECT_LT(text.find("\nsee\n"), text.find("\nrun\n"));
  EXPECT_LT(text.find("\nrun\n"), text.find("\nmachine\n"));
  for (const Verb& verb : verbs())
    EXPECT_EQ(text.find("\n  " + std::string(verb.name) + " ") != std::string::npos, !verb.group.empty()) << verb.name;
}

TEST(Help, OfAVerbNamesEveryOptionAndExample) {
  for (const Verb& verb : verbs()) {
    const std::string text = help_of(verb);
    for (const Option* row : options_of(verb)) EXPECT_THAT(text, HasSubstr("--" + std::string(row->name))) << verb.name;
    for (const Example& example : verb.examples) EXPECT_THAT(text, HasSubstr(std::string(example.line)));
  }
}
