#include "plan/job/sweep.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/items.hpp"
#include "plan/job/sweep_template.hpp"
#include "support/said.hpp"

namespace thole::test {
namespace {

// All values of the one variable of a grid word.
std::string values_of(const std::string& word) {
  const model::Sweep sweep{{}, {plan::parse_grid(word)}};
  std::vector<std::string> values;
  for (std::uint64_t i = 0; i < plan::tasks_of(sweep, 1); ++i)
    values.push_back(plan::task_values(sweep, 1, i, {}).at(sweep.grid.front().name));
  return join(values, "|");
}

TEST(Grid, WordsAndRangesAreValues) {
  struct Case { const char* word; const char* values; };
  for (const Case& c : std::vector<Case>{{"lr=1e-3,1e-4", "1e-3|1e-4"},
                                         {"seed=0..4", "0|1|2|3|4"},
                                         {"n=3..1", "3|2|1"},
                                         {"n=-1..1", "-1|0|1"},
                                         {"n=0..10..5", "0|5|10"},
                                         {"n=0..9..5", "0|5"},
                                         {"n=9..0..4", "9|5|1"},
                                         {"n=08..10,200", "08|09|10|200"},
                                         {"n=1,3..5,9", "1|3|4|5|9"},
                                         {"file=../data,a..b", "../data|a..b"},
                                         {"text=\"a,b\",\"say \"\"hi\"\"\"", "a,b|say \"hi\""},
                                         {"flag=,--amp", "|--amp"},
                                         {"flag=--amp,\"\"", "--amp|"},
                                         {"model.depth=1", "1"},
                                         {"x=a=b", "a=b"}})
    EXPECT_EQ(values_of(c.word), c.values) << c.word;
}

TEST(Grid, ARangeThatStandsAloneTakesNoRoom) {
  const model::GridVariable million = plan::parse_grid("i=0..999999");
  ASSERT_TRUE(million.range);
  EXPECT_TRUE(million.values.empty());
  EXPECT_EQ(plan::tasks_of({{}, {million}}, 1), 1'000'000u);
  EXPECT_EQ(plan::task_values({{}, {million}}, 1, 999'999, {}).at("i"), "999999");
}

TEST(Grid, MistakesQuoteTheWordAndNameTheFix) {
  struct Case { const char* word; const char* part; };
  for (const Case& c : std::vector<Case>{{"lr", "expected NAME=VALUES"},
                                         {"=1,2", "a name is missing"},
                                         {"2lr=1", "no name of a variable"},
                                         {"l r=1", "no name of a variable"},
                                         {"lr=", "lr has no values"},
                                         {"lr=1,2,", "a comma at its end"},
                                         {"seed=0..4,", "a comma at its end"},
                                         {"t=\"a\",", "a comma at its end"},
                                         {"lr=0.1..0.5", "a range counts whole numbers"},
                                         {"n=0..10..0", "the step of a range"},
                                         {"n=1..x", "1..x"},  // no number: a word
                                         {"job=1", "has a meaning already"},
                                         {"t=\"a", "a quote is not closed"},
                                         {"t=\"a\"b", "a comma belongs"},
                                         {"n=0..99999999999", "more than"}}) {
    const std::string text = said([&] {
      if (plan::parse_grid(c.word).values == std::vector<std::string>{"1..x"}) throw Error(ErrorCode::usage, "1..x is a word");
    });
    EXPECT_NE(text.find(c.part), std::string::npos) << c.word << ": " << text;
    EXPECT_TRUE(text.starts_with("usage: ")) << text;
  }
}

TEST(Grid, TheLastVariableMovesFastestAndItemsSlowest) {
  const model::Sweep sweep{{"file"}, {plan::parse_grid("lr=a,b"), plan::parse_grid("seed=0..2")}};
  EXPECT_EQ(plan::tasks_of(sweep, 2), 12u);
  const std::vector<std::vector<std::string>> items{{"x"}, {"y"}};
  std::string all;
  for (std::uint64_t task = 0; task < 12; ++task) {
    const auto values = plan::task_values(sweep, 7, task, items[plan::item_of(sweep, task)]);
    all += values.at("file") + values.at("lr") + values.at("seed") + " ";
  }
  EXPECT_EQ(all, "xa0 xa1 xa2 xb0 xb1 xb2 ya0 ya1 ya2 yb0 yb1 yb2 ");
}

TEST(Grid, ANameGivenTwiceAndTooManyTasksAreRefused) {
  const auto wide = plan::parse_grid("a=0..99999");
  EXPECT_NE(said([&] { plan::tasks_of({{}, {wide, wide}}, 1); }).find("a is given twice"), std::string::npos);
  EXPECT_NE(said([&] { plan::tasks_of({{"a"}, {wide}}, 3); }).find("a is given twice"), std::string::npos);
  EXPECT_NE(said([&] { plan::tasks_of({{}, {wide, plan::parse_grid("b=0..99999")}}, 1); }).find("more than 100000000 tasks"),
            std::string::npos);
}

TEST(Array, TakesSlurmsForm) {
  const auto word = plan::parse_array("1-10:3%4");
  EXPECT_EQ(word.at_most, 4u);
  ASSERT_TRUE(word.index.range);
  std::string all;
  const model::Sweep sweep{{}, {word.index}};
  for (std::uint64_t i = 0; i < plan::tasks_of(sweep, 1); ++i) all += plan::task_values(sweep, 1, i, {}).at("index") + " ";
  EXPECT_EQ(all, "1 4 7 10 ");
  EXPECT_EQ(plan::parse_array("1,5,7-9").index.values, (std::vector<std::string>{"1", "5", "7", "8", "9"}));
  for (const char* bad : {"", "a", "9-1", "0-9:0", "0-9%0", "0-9%x", "-1", "1-"})
    EXPECT_NE(said([&] { plan::parse_array(bad); }).find("such as: 0-99"), std::string::npos) << bad;
}

TEST(Template, FillsNamesAndLeavesOtherBracesAlone) {
  const auto value = [](std::string_view name) -> std::optional<std::string> {
    if (name == "lr") return "1e-3";
    if (name.empty()) return "line 1";
    return std::nullopt;
  };
  struct Case { const char* word; const char* filled; };
  for (const Case& c : std::vector<Case>{{"--lr={lr}", "--lr=1e-3"},
                                         {"{lr}{lr}", "1e-31e-3"},
                                         {"{}", "line 1"},
                                         {"{{lr}}", "{lr}"},
                                         {"{{}}", "{}"},
                                         {"{print $1}", "{print $1}"},
                                         {"{\"json\": {\"a\": 1}}", "{\"json\": {\"a\": 1}}"},
                                         {"${lr}", "$1e-3"},
                                         {"{lr", "{lr"},
                                         {"lr}", "lr}"},
                                         {"{{lr}", "{1e-3"},
                                         {"{a b} {lr}", "{a b} 1e-3"}})
    EXPECT_EQ(plan::fill(c.word, value), c.filled) << c.word;
}

TEST(Template, ABadNameIsRefusedWithTheNearest) {
  model::JobSpec spec;
  spec.sweep.grid = {plan::parse_grid("seed=0..4"), plan::parse_grid("lr=1,2")};
  spec.argv = {"python", "train.py", "--seed", "{sed}"};
  EXPECT_EQ(said([&] { plan::check_command(spec); }),
            "usage: the command says {sed}, but the job has no variable of that name\n  did you mean {seed}?");
  spec.argv = {"awk", "{print}"};
  EXPECT_NE(said([&] { plan::check_command(spec); }).find("{{print}} passes the braces on"), std::string::npos);
  spec.argv = {"train", "{seed}", "{lr}", "{job}", "{task}", "{index}"};
  plan::check_command(spec);
  EXPECT_EQ(plan::task_command(spec, 12, 3, {}), (std::vector<std::string>{"train", "1", "2", "12", "12.3", "3"}));
}

TEST(Template, ACommandWithoutASweepIsTakenAsItStands) {
  model::JobSpec spec;
  spec.argv = {"awk", "{print}", "{{x}}"};
  plan::check_command(spec);
  EXPECT_EQ(plan::task_command(spec, 1, 0, {}), spec.argv);
}

TEST(Template, LinesGoToTheEndOfACommandThatHasNoFieldForThem) {
  model::JobSpec spec;
  spec.sweep.columns = {"line"};
  spec.argv = {"python", "eval.py"};
  plan::check_command(spec);
  EXPECT_EQ(plan::task_command(spec, 1, 0, {"a b"}), (std::vector<std::string>{"python", "eval.py", "a b"}));
  spec.argv = {"eval", "--on={line}"};
  plan::check_command(spec);
  EXPECT_EQ(plan::task_command(spec, 1, 0, {"a b"}), (std::vector<std::string>{"eval", "--on=a b"}));
}

TEST(Csv, ReadsQuotesAndLineEndsOfSpreadsheets) {
  const auto read =
      plan::parse_csv("\xef\xbb\xbflr,note\r\n1e-3,\"a, \"\"b\"\"\"\r\n\r\n1e-4, plain \r\n\"2\",\"two\nlines\"", "x.csv");
  EXPECT_EQ(read.columns, (std::vector<std::string>{"lr", "note"}));
  ASSERT_EQ(read.items.size(), 3u);
  EXPECT_EQ(read.items.row(0), (std::vector<std::string>{"1e-3", "a, \"b\""}));
  EXPECT_EQ(read.items.row(1), (std::vector<std::string>{"1e-4", "plain"}));
  EXPECT_EQ(read.items.row(2), (std::vector<std::string>{"2", "two\nlines"}));
  EXPECT_EQ(plan::parse_csv("a\tb\n1\t2,3\n", "x").items.row(0), (std::vector<std::string>{"1", "2,3"}));
}

TEST(Csv, MistakesNameFileAndLine) {
  struct Case { const char* text; const char* part; };
  for (const Case& c :
       std::vector<Case>{{"a,b\n1,2\n\n3\n", "x.csv:4: 1 cells, but the first row names 2 columns"},
                         {"a,b\n\"1\n2\",3\n\"4,5\n", "x.csv:4: a quote is not closed"},
                         {"a,a\n1,2\n", "x.csv:1: two columns named a"},
                         {"\na b,c\n1,2\n", "x.csv:2: the first row names the variables, and \"a b\" is no name"},
                         {"task\n1\n", "x.csv:1: {task} has a meaning already"},
                         {"a\n\"1\"x\n", "x.csv:2: text after a closing quote"},
                         {"a,b\n", "no rows, so there is nothing to run: x.csv"},
                         {"", "no rows, so there is nothing to run: x.csv"}})
    EXPECT_NE(said([&] { plan::parse_csv(c.text, "x.csv"); }).find(c.part), std::string::npos)
        << c.text << said([&] { plan::parse_csv(c.text, "x.csv"); });
}

TEST(Lines, AreItemsAsTheyStandWithoutEmptyOnes) {
  const auto read = plan::parse_lines("one\n\n two words \r\nthree", "x");
  ASSERT_EQ(read.items.size(), 3u);
  EXPECT_EQ(read.items.row(1), std::vector<std::string>{" two words "});
  EXPECT_NE(said([] { plan::parse_lines("\n\n", "x"); }).find("no lines"), std::string::npos);
}

}  // namespace
}  // namespace thole::test
