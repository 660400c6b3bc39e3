#include "cli/show/topo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/show/svg.hpp"
#include "support/machines.hpp"
#include "unit/cli/status_fixture.hpp"

namespace thole::cli {
namespace {

using model::LinkKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

app::Place place(std::initializer_list<std::string_view> cores) {
  app::Place place;
  place.groups.emplace_back();
  for (const std::string_view core : cores) place.groups[0].cores.push_back(*model::CpuSet::parse(core));
  return place;
}

TEST(TopoWords, CoresAreFirstThreadsThenTheOthers) {
  EXPECT_EQ(cores_of(place({"0", "1", "2"})), "3 cores 0-2");
  EXPECT_EQ(cores_of(place({"0,4", "1,5", "2,6", "3,7"})), "4 cores 0-3 (SMT 4-7)");
  EXPECT_EQ(cores_of(place({"0-3", "4-7", "8-11"})), "3 cores 0-11 (4 threads each)");
  EXPECT_EQ(cores_of(place({"0,1", "2,3", "4", "5"})), "2 cores 0-3 (2 threads each), 2 cores 4,5");
  EXPECT_EQ(cores_of(place({"0,8", "2,10", "4,12", "6,14"})), "4 cores 0-6:2 (SMT 8-14:2)");
  EXPECT_EQ(cores_of(place({"7"})), "1 core 7");
}

TEST(TopoWords, CpusWhoseCoresAreNotToldAreCpus) {
  app::Place threads = place({"0", "1", "2"});
  threads.cores_told = false;
  EXPECT_EQ(cores_of(threads), "3 CPUs 0-2");
}

TEST(TopoWords, HoldersAreNamedAndWhatIsWrongIsSaid) {
  const app::Overview overview = test::every_state();
  std::vector<std::string> words;
  for (const app::UnitOverview& unit : overview.units) words.push_back(holders_of(unit));
  EXPECT_THAT(words, ElementsAre("anna", "you", "bob, me", "ann, carl, no claim", "SICK", "unknown",
                                 "?eve_with_a_rather_long_name, overdue", "free"));
}

// "NVLink GPU 0,1: 4 links", and the rows of tables.
std::vector<std::string> facts(const model::Snapshot& snapshot) {
  std::vector<std::string> all;
  for (const LinkFact& fact : link_facts(snapshot.machine, app::Joins(snapshot.machine))) {
    all.push_back(fact.what + " " + fact.text);
    all.insert(all.end(), fact.table.begin(), fact.table.end());
  }
  return all;
}

TEST(LinkFacts, PairsAreNamed) {
  model::Snapshot snapshot = test::machine({"ab", "cd"});
  test::link(snapshot, 0, 1, LinkKind::nvlink, 4);
  test::link(snapshot, 2, 3, LinkKind::nvlink, 4);
  EXPECT_THAT(facts(snapshot), ElementsAre("NVLink GPU 0,1 2,3: 4 links",
                                           "PCIe GPU 0,1 2,3: one NUMA node (NODE); all others: across nodes (SYS)"));
}

TEST(LinkFacts, WhereEveryTwoGpusAreJoinedFastPcieDoesNotMatter) {
  model::Snapshot snapshot = test::machine({"abcd"});
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b)
      test::link(snapshot, a, b, LinkKind::xgmi, a / 2 == b / 2 ? std::optional(4) : std::nullopt, 15);
  EXPECT_THAT(facts(snapshot), ElementsAre("xGMI GPU 0,1 2,3: 4 links; all others: joined"));
}

TEST(LinkFacts, MoreLinksThanAGpuHasGoThroughASwitch) {
  for (const auto& [kind, count] : {std::pair{LinkKind::nvswitch, 12}, std::pair{LinkKind::nvlink, 12}}) {
    model::Snapshot snapshot = test::machine({"abcd"});
    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t b = 0; b < a; ++b) test::link(snapshot, a, b, kind, count);
    EXPECT_THAT(facts(snapshot), ElementsAre("NVSwitch 12 links from every GPU"));
  }
  model::Snapshot direct = test::machine({"abcd"});  // four H200 NVL on a bridge: 3 x 6 links each
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b) test::link(direct, a, b, LinkKind::nvlink, 6);
  EXPECT_THAT(facts(direct), ElementsAre("NVLink every two GPUs: 6 links"));
}

TEST(LinkFacts, WhatHasNoPatternIsATable) {
  model::Snapshot snapshot = test::machine({"abc"});
  test::link(snapshot, 0, 1, LinkKind::nvlink, 2);
  test::link(snapshot, 1, 2, LinkKind::nvlink, 1);
  EXPECT_THAT(facts(snapshot), ElementsAre("NVLink links between any two GPUs:",  //
                                           "     0  1  2",                        //
                                           "  0  x  2  -",                        //
                                           "  1  2  x  1",                        //
                                           "  2  -  1  x", "PCIe every two GPUs: one NUMA node (NODE)"));
}

TEST(LinkFacts, OneGpuIsJoinedToNobody) { EXPECT_THAT(facts(test::machine({"a"})), ElementsAre()); }

TEST(TopoDrawing, FitsWhateverTheStatesAndTheNames) {
  app::Overview overview = test::every_state();
  for (const std::size_t columns : {60, 77, 80, 99, 100, 118, 160, 240}) {
    const std::string text = render_topo(overview, {.columns = columns});
    for (std::string_view line : split_lines(text)) EXPECT_LE(columns_of(line), columns) << line;
    EXPECT_THAT(text, HasSubstr("GPU 7"));
    EXPECT_THAT(text, HasSubstr("ann, carl, no claim"));
    EXPECT_THAT(text, HasSubstr("SICK"));
  }
}

TEST(TopoDrawing, SaysWhatAnOuterMaskLeaves) {
  app::Overview overview = test::overview_of(2);
  for (unsigned c = 0; c < 8; ++c)
    overview.snapshot.machine.cpus.push_back({.id = c, .core = static_cast<int>(c), .l3 = {}, .numa = 0, .package = 0});
  overview.snapshot.machine.outer.allowed_cpus = model::CpuSet::parse("0-3");
  EXPECT_THAT(render_topo(overview, {}), HasSubstr("This process may use CPUs 0-3."));
  overview.snapshot.machine.outer.allowed_cpus = model::CpuSet::parse("0-63");
  EXPECT_THAT(render_topo(overview, {}), Not(HasSubstr("This process")));
}

TEST(TopoDrawing, InAsciiHasTheSameShape) {
  const std::string fancy = render_topo(test::every_state(), {}), plain = in_ascii(fancy);
  const auto before = split_lines(fancy), after = split_lines(plain);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(columns_of(before[i]), after[i].size()) << after[i];
}

TEST(Svg, CutsTextThatHasNoRoomAndEscapesAll) {
  Svg svg;
  svg.text(0, 10, "a < b & \"c\"", {});
  svg.text(0, 20, std::string(100, 'm'), {.size = 10}, 50);
  const std::string document = svg.document(100, 100, "t<>", "two & more");
  EXPECT_THAT(document, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
  EXPECT_THAT(document, HasSubstr("<title>t&lt;&gt;</title>\n<desc>two &amp; more</desc>"));
  EXPECT_THAT(document, HasSubstr(">mmmm…<"));
}

}  // namespace
}  // namespace thole::cli
