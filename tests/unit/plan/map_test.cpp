// The rules of `map`: fields in the command, when it ends early, and the log of GNU parallel.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/halt.hpp"
#include "plan/job/job_log.hpp"
#include "plan/job/map_template.hpp"

namespace thole::test {
namespace {

using Words = std::vector<std::string>;

std::string filled(const Words& command, const Words& cells, const Words& columns = {}) {
  const plan::MapTemplate made(command, columns, cells.size());
  Words words{"left", "over", "from", "the", "task", "before", "this"};
  made.fill({cells, 12, 3}, words);
  return join(words, "|");
}

std::string refusal(const Words& command, std::size_t cells, const Words& columns = {}) {
  try {
    plan::MapTemplate(command, columns, cells);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.full();
  }
  return "accepted";
}

TEST(MapTemplate, FieldsAreFilled) {
  struct Case { Words command, cells; const char* words; };
  for (const Case& c : std::vector<Case>{{{"echo"}, {"a b"}, "echo|a b"},
                                         {{"echo"}, {"a", "1"}, "echo|a|1"},
                                         {{"echo", "x{}y{}"}, {"a b"}, "echo|xa bya b"},
                                         {{"echo", "{2}-{1}"}, {"a", "1"}, "echo|1-a"},
                                         {{"echo", "{}"}, {"a", "1"}, "echo|a 1"},
                                         {{"{}"}, {"true"}, "true"},
                                         {{"echo", "{#}", "{%}"}, {"a"}, "echo|12|3"},
                                         {{"echo", "{#}", "{}"}, {"a"}, "echo|12|a"},
                                         {{"echo", ""}, {"a"}, "echo||a"},
                                         {{"echo", "{}"}, {""}, "echo|"},
                                         {{"awk", "{print $1}", "{}"}, {"f"}, "awk|{print $1}|f"},
                                         {{"awk", "{print}", "{}"}, {"f"}, "awk|{print}|f"},
                                         {{"echo", "{\"a\": {}}"}, {"1"}, "echo|{\"a\": 1}"},
                                         {{"find", "-exec", "rm", "{{}}", ";"}, {"d"}, "find|-exec|rm|{}|;|d"},
                                         {{"echo", "{{1}}{1}"}, {"a"}, "echo|{1}a"},
                                         {{"echo", "{", "}", "{{", "{}"}, {"a"}, "echo|{|}|{{|a"}})
    EXPECT_EQ(filled(c.command, c.cells), c.words);
}

// As GNU parallel 20221122 prints them.
TEST(MapTemplate, PartsAreThoseOfGnuParallel) {
  struct Case { const char *item, *stem, *folder, *stem_of_name; };
  for (const Case& c : std::vector<Case>{{"a", "a", ".", "a"},
                                         {"a.b.c", "a.b", ".", "a.b"},
                                         {"x.y/a", "x.y/a", "x.y", "a"},
                                         {"/a.b", "/a", "/", "a"},
                                         {"a.", "a", ".", "a"},
                                         {"a/", "a/", ".", ""},
                                         {"a//b", "a//b", "a", "b"},
                                         {"x/.", "x/", "x", ""},
                                         {".", "", ".", ""},
                                         {"..", ".", ".", "."},
                                         {"/", "/", "/", ""},
                                         {"a/b//", "a/b//", "a", ""}})
    EXPECT_EQ(filled({"{.}", "{//}", "{/.}"}, {c.item}), fmt::format("{}|{}|{}", c.stem, c.folder, c.stem_of_name)) << c.item;
}

TEST(MapTemplate, ColumnsAreNamed) {
  EXPECT_EQ(filled({"train", "--lr={lr}", "{seed}"}, {"1e-3", "7"}, {"lr", "seed"}), "train|--lr=1e-3|7");
  EXPECT_EQ(filled({"train", "{{lr}}", "{1}"}, {"1e-3", "7"}, {"lr", "seed"}), "train|{lr}|1e-3");
  EXPECT_NE(refusal({"train", "{sed}"}, 2, {"lr", "seed"}).find("did you mean {seed}?"), std::string::npos);
}

TEST(MapTemplate, APartThatNoItemHasIsRefused) {
  EXPECT_NE(refusal({"echo", "{2}"}, 1).find("one part only"), std::string::npos);
  EXPECT_NE(refusal({"echo", "{0}"}, 3).find("3 parts"), std::string::npos);
  EXPECT_EQ(refusal({"echo", "{3}"}, 3), "accepted");
}

TEST(MapTemplate, KnowsWhetherEveryTaskRunsTheSameProgram) {
  EXPECT_TRUE(plan::MapTemplate(Words{"echo", "{}"}, {}, 1).fixed_program());
  EXPECT_FALSE(plan::MapTemplate(Words{"{}"}, {}, 1).fixed_program());
  EXPECT_FALSE(plan::MapTemplate(Words{"bin/{}"}, {}, 1).fixed_program());
}

TEST(Halt, WordsOfGnuParallel) {
  using Halt = plan::Halt;
  EXPECT_EQ(plan::parse_halt("never"), Halt{});
  EXPECT_EQ(plan::parse_halt("now,fail=1"), (Halt{Halt::When::now, Halt::What::fail, 1}));
  EXPECT_EQ(plan::parse_halt("soon,success=3"), (Halt{Halt::When::soon, Halt::What::success, 3}));
  EXPECT_EQ(plan::parse_halt("now,done=2"), (Halt{Halt::When::now, Halt::What::done, 2}));
  for (const char* bad :
       {"", "now", "soon,fail", "later,fail=1", "now,fail=0", "now,fail=x", "now,fail=1=2", "now,fail=1,x", "never,fail=1"})
    EXPECT_FALSE(plan::parse_halt(bad)) << bad;
}

TEST(Halt, ComesWithTheCount) {
  const plan::Halt fails = *plan::parse_halt("now,fail=2"), ends = *plan::parse_halt("soon,done=2");
  EXPECT_FALSE(plan::must_halt(fails, {9, 1}));
  EXPECT_TRUE(plan::must_halt(fails, {0, 2}));
  EXPECT_TRUE(plan::must_halt(ends, {1, 1}));
  EXPECT_FALSE(plan::must_halt(plan::Halt{}, {0, 1000}));
}

// As measured with GNU parallel 20221122.
TEST(Halt, ExitStatusIsGnuParallels) {
  struct Case { const char* halt; plan::Tally counts; std::optional<int> by; int status; };
  for (const Case& c : std::vector<Case>{{"never", {5, 0}, {}, 0},
                                         {"never", {5, 3}, {}, 3},
                                         {"never", {0, 100}, {}, 100},
                                         {"never", {0, 105}, {}, 101},
                                         {"now,fail=1", {1, 1}, 5, 5},
                                         {"now,fail=1", {1, 1}, 137, 137},
                                         {"soon,fail=2", {1, 2}, 6, 2},
                                         {"now,success=1", {1, 1}, 0, 0},
                                         {"soon,done=2", {0, 2}, 4, 2},
                                         {"now,fail=1", {4, 0}, {}, 0}})
    EXPECT_EQ(plan::map_exit_status(*plan::parse_halt(c.halt), c.counts, c.by), c.status) << c.halt;
}

// A line of GNU parallel 20221122: parallel --joblog log 'echo {} a; exit {}' ::: 1
TEST(JobLog, LinesAreGnuParallels) {
  plan::JobLogLine line;
  line.number = 2;
  line.started = WallTime{Millis{1795265007947}};
  line.took = std::chrono::microseconds{12'600};
  line.bytes = 4;
  line.exit_code = 1;
  line.command = "echo 1 a; exit 1";
  std::string text;
  plan::write_job_log(text, line);
  EXPECT_EQ(text, "2\t:\t1795265007.947\t     0.013\t0\t4\t1\t0\techo 1 a; exit 1\n");
  line.started = WallTime{Millis{1795265007007}};
  line.command = "a\nb";
  text.clear();
  plan::write_job_log(text, line);
  EXPECT_EQ(text, std::string("2\t:\t1795265007.007\t     0.013\t0\t4\t1\t0\ta") + '\0' + "b\n");
}

TEST(JobLog, SaysWhichTasksAreDone) {
  const std::string log = std::string(plan::job_log_head) +
                          "1\t:\t1.000\t     0.001\t0\t0\t0\t0\ta\n"
                          "2\t:\t1.000\t     0.001\t0\t0\t1\t0\tb\n"
                          "4\t:\t1.000\t     0.001\t0\t0\t0\t9\td\n"
                          "2\t:\t1.000\t     0.001\t0\t0\t0\t0\tb again\n"
                          "99999999999\t:\t1.000\t     0.001\t0\t0\t0\t0\tforged\n"
                          "5\t:\t1.0";
  using Done = std::vector<bool>;
  EXPECT_EQ(plan::tasks_done(log, plan::Resume::done), (Done{false, true, true, false, true}));
  EXPECT_EQ(plan::tasks_done(log, plan::Resume::succeeded), (Done{false, true, true}));
  EXPECT_EQ(plan::tasks_done(log, plan::Resume::none), Done{});
}

}  // namespace
}  // namespace thole::test
