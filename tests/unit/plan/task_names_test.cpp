#include "plan/job/names.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::test {
namespace {

using plan::TaskName;

std::string shape_of(const TaskName& name) {
  std::string text;
  switch (name.jobs) {
    case TaskName::Jobs::numbered: text = fmt::format("{}-{}", name.numbers.first, name.numbers.last); break;
    case TaskName::Jobs::newest: text = "newest"; break;
    case TaskName::Jobs::all: text = "all"; break;
    case TaskName::Jobs::named: text = "\"" + name.name + "\""; break;
  }
  if (name.tasks) text += fmt::format(" tasks {}-{}", name.tasks->first, name.tasks->last);
  return text;
}

TEST(TaskNames, EveryForm) {
  struct Case { const char* word; const char* shapes; };
  for (const Case& c : std::vector<Case>{{"7", "7-7"},
                                         {"3,5-9,@,last,12.0-99", "3-3; 5-9; newest; newest; 12-12 tasks 0-99"},
                                         {"12.3", "12-12 tasks 3-3"},
                                         {"@.3", "newest tasks 3-3"},
                                         {"all", "all"},
                                         {"train", "\"train\""},
                                         {"train.5", "\"train\" tasks 5-5"},
                                         {"v1.2-beta", "\"v1.2-beta\""},
                                         {"2024-run", "\"2024-run\""},
                                         {"resnet.py", "\"resnet.py\""}}) {
    std::vector<std::string> shapes;
    for (const TaskName& name : plan::parse_task_names(c.word)) shapes.push_back(shape_of(name));
    EXPECT_EQ(join(shapes, "; "), c.shapes) << c.word;
  }
}

TEST(TaskNames, MistakesAreQuoted) {
  for (const char* bad : {"", "3,", "9-5", "5-", "12.9-5", "5-9.3", "all.1", ".3", "99999999999999999999", "1..3", "12.0..9"})
    EXPECT_THROW(plan::parse_task_names(bad), Error) << bad;
}

TEST(After, TakesConditions) {
  const auto all = plan::parse_after_names("3,4:any,prep:fail,@");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].when, model::After::ok);
  EXPECT_EQ(all[1].when, model::After::any);
  EXPECT_EQ(all[2].when, model::After::fail);
  EXPECT_EQ(all[2].name.name, "prep");
  EXPECT_EQ(all[3].name.jobs, TaskName::Jobs::newest);
}

TEST(After, AnUnknownConditionIsRefusedWithTheNearest) {
  try {
    plan::parse_after_names("3:fial");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.full().find("did you mean fail?"), std::string::npos) << error.full();
  }
  EXPECT_THROW(plan::parse_after_names("all"), Error);
  EXPECT_THROW(plan::parse_after_names("3:"), Error);
}

TEST(Cycle, IsFoundAndNamedInOrder) {
  EXPECT_TRUE(plan::find_cycle({}).empty());
  EXPECT_TRUE(plan::find_cycle({{3, {1, 2}}, {2, {1}}, {4, {3, 2}}}).empty());
  EXPECT_EQ(plan::find_cycle({{3, {3}}}), (std::vector<std::uint64_t>{3, 3}));
  EXPECT_EQ(plan::find_cycle({{1, {2}}, {2, {5, 3}}, {3, {4}}, {4, {2}}}), (std::vector<std::uint64_t>{2, 3, 4, 2}));
  EXPECT_EQ(plan::describe_cycle({"2", "3", "4", "2"}), "2 waits for 3, which waits for 4, which waits for 2");
}

TEST(Cycle, ALongChainTakesNoStack) {
  plan::Dependencies chain;
  for (std::uint64_t job = 1; job < 200'000; ++job) chain[job] = {job + 1};
  EXPECT_TRUE(plan::find_cycle(chain).empty());
}

}  // namespace
}  // namespace thole::test
