#include "cli/line/queue_words.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "base/error.hpp"
#include "base/text.hpp"

using namespace thole;
using namespace thole::cli;

namespace {

WallTime at(const char* iso) { return *parse_iso(iso); }

class LocalTime : public ::testing::Test {
 protected:
  void SetUp() override { set("Europe/Prague"); }
  void TearDown() override { set("UTC"); }
  static void set(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
};

TEST_F(LocalTime, BeginIsAClockADayOrATimeFromNow) {
  const WallTime now = at("2026-11-21T14:00:00Z");  // 15:00 in Prague
  struct Case { const char* text; const char* begins; };
  for (const Case& c : std::vector<Case>{{"now", "2026-11-21T14:00:00Z"},
                                         {"2h", "2026-11-21T16:00:00Z"},
                                         {"22:00", "2026-11-21T21:00:00Z"},
                                         {"15:00", "2026-11-22T14:00:00Z"},     // not now: the next time
                                         {"08:30", "2026-11-22T07:30:00Z"},
                                         {"2026-11-23", "2026-11-22T23:00:00Z"},
                                         {"2026-11-23 08:00", "2026-11-23T07:00:00Z"},
                                         {"2026-11-23T08:00", "2026-11-23T07:00:00Z"},
                                         {"2027-07-01 12:00", "2027-07-01T10:00:00Z"},   // summer time there, winter time now
                                         {"2026-11-23T08:00:00Z", "2026-11-23T08:00:00Z"}})
    EXPECT_EQ(format_iso(begin_of({"--begin", c.text}, now)), c.begins) << c.text;
  for (const char* bad : {"", "soon", "25:00", "22:61", "2026-13-01", "22:00 tomorrow", "10.30"})
    EXPECT_THROW(begin_of({"--begin", bad}, now), Error) << bad;
}

TEST_F(LocalTime, AClockOnTheDayTheClocksChangeIsThatDaysOwn) {
  // 2026-10-25: at 3:00 it becomes 2:00 in Prague.
  EXPECT_EQ(format_iso(begin_of({"--begin", "04:00"}, at("2026-10-24T20:00:00Z"))), "2026-10-25T03:00:00Z");
  // 2027-03-28: at 2:00 it becomes 3:00. The next day has its 2:30.
  EXPECT_EQ(format_iso(begin_of({"--begin", "02:30"}, at("2027-03-28T10:00:00Z"))), "2027-03-29T00:30:00Z");
  EXPECT_EQ(format_iso(begin_of({"--begin", "02:30:00"}, at("2027-03-27T10:00:00Z"))), "2027-03-28T01:30:00Z")
      << "no such hour";
}

TEST(RetryWords, CountAndClasses) {
  const auto read = [](const char* text) { return retry_of({"--retry", text}, Seconds{60}); };
  EXPECT_EQ(read("3").times, 3u);
  EXPECT_TRUE(read("3").any_failure);
  EXPECT_EQ(read("lost").times, 1u);
  EXPECT_FALSE(read("lost").any_failure);
  const model::Retry all = read("2,exit:75,exit:1-9,signal:KILL,signal:SIGSEGV,signal:15,oom,lost");
  EXPECT_EQ(all.times, 2u);
  EXPECT_FALSE(all.any_failure);
  EXPECT_EQ(all.exit_codes, (std::vector<std::pair<int, int>>{{75, 75}, {1, 9}}));
  EXPECT_EQ(all.signals, (std::vector<int>{9, 11, 15}));
  EXPECT_TRUE(all.gpu_out_of_memory && all.lost);
  EXPECT_EQ(all.pause, Seconds{60});
  EXPECT_EQ(read("signal").signals, std::vector<int>{0});
  for (const char* bad : {"0", "1001", "exit:0", "exit:256", "exit:9-1", "signal:FOO", "signal:0", "often", "", "3,,oom"})
    EXPECT_THROW(read(bad), Error) << bad;
}

TEST(JobNames, CannotBeTakenForNumbersOrLists) {
  for (const char* good : {"train", "train-2", "v1.2", "a b", "2024-run", "résumé"})
    EXPECT_EQ(job_name_of({"--name", good}), good);
  for (const char* bad : {"", "12", "3-5", "12.3", "last", "all", "none", "a,b", "a:b", "@x", " a", "a "})
    EXPECT_THROW(job_name_of({"--name", bad}), Error) << bad;
}

TEST(Priorities, MayBeNegativeAndAreBounded) {
  EXPECT_EQ(priority_of({"-p", "-5"}), -5);
  EXPECT_EQ(priority_of({"-p", "1000"}), 1000);
  for (const char* bad : {"1001", "-1001", "high", "", "1.5"}) EXPECT_THROW(priority_of({"-p", bad}), Error) << bad;
}

TEST(StateWords, AreKnownOrSuggested) {
  EXPECT_EQ(states_of({"--state", "failed,lost"}),
            (std::set<model::TaskState>{model::TaskState::failed, model::TaskState::lost}));
  try {
    states_of({"--state", "runing"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.full().find("did you mean running?"), std::string::npos) << error.full();
  }
}

}  // namespace
