#include "wire/site_file.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace thole::wire {
namespace {

std::string with(const std::string& text, const std::string& group) { return with_state_group(text, group, "config.toml"); }

TEST(SiteFile, AGroupIsWrittenWhereItBelongsAndNothingElseChanges) {
  EXPECT_EQ(with("", "gpu"), "[state]\ngroup = \"gpu\"\n");
  EXPECT_EQ(with("# ours\n[request]\nwait = \"1h\"\n", "gpu"),
            "# ours\n[request]\nwait = \"1h\"\n\n[state]\ngroup = \"gpu\"\n");
  EXPECT_EQ(with("[state]\n# here\n[request]\npick = \"last\"\n", "gpu"),
            "[state]\ngroup = \"gpu\"\n# here\n[request]\npick = \"last\"\n");
  EXPECT_EQ(with("[state]\ngroup = 'old' # since May\n[free]\nignore_memory = \"64M\"\n", "gpu"),
            "[state]\ngroup = \"gpu\"\n[free]\nignore_memory = \"64M\"\n");
  EXPECT_EQ(with("state.group = \"old\"\nmachine = \"x\"\n", "gpu"), "state.group = \"gpu\"\nmachine = \"x\"\n");
}

TEST(SiteFile, AnotherSpellingIsReplaced) {
  EXPECT_EQ(with("state = { group = \"old\" }\nmachine = \"x\"\n", "gpu"), "state.group = \"gpu\"\nmachine = \"x\"\n");
}

TEST(SiteFile, AGroupIsTakenAway) {
  EXPECT_EQ(with("[state]\ngroup = \"gpu\"\n[request]\nwait = \"1h\"\n", ""), "[request]\nwait = \"1h\"\n");
  EXPECT_EQ(with("[state]\ngroup = \"gpu\"\n", ""), "") << "no empty table is left";
  EXPECT_EQ(with("[state]\ngroup = \"gpu\"\n# ours\n", ""), "[state]\n# ours\n");
  for (const char* text : {"# ours\n[request]\nwait = \"1h\"\n", "machine = \"x\"\n"})
    EXPECT_EQ(with(with(text, "gpu"), ""), text) << "as it was";
  EXPECT_EQ(with("[request]\n", ""), "[request]\n") << "there was none";
}

TEST(SiteFile, WhatIsThereAlreadyStaysAsItIsWritten) {
  const std::string text = "state = { group = \"gpu\" }   # tersely";
  EXPECT_EQ(with(text, "gpu"), text);
}

TEST(SiteFile, AFormThatCannotBeChangedIsRefusedNotDamaged) {
  for (const char* text : {"state = { group = \"old\", other = 1 }\n", "[state] # ours\nother = 1\n"})
    EXPECT_THROW(with(text, "gpu"), Error) << text;
  EXPECT_THROW(with("[state\n", "gpu"), Error);
}

}  // namespace
}  // namespace thole::wire
