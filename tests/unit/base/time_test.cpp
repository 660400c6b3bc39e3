#include "base/time.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace thole {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

TEST(Time, TakesDurations) {
  struct { const char* text; long seconds;
  } const cases[] = {
      {"0", 0},       {"45", 45},      {"90s", 90},    {"30m", 1800},       {"8h", 28800},
      {"2d", 172800}, {"1h30m", 5400}, {"1.5h", 5400}, {"1d2h3m4s", 93784},
  };
  for (auto [text, seconds] : cases) EXPECT_EQ(parse_duration(text), Seconds(seconds)) << text;
  for (auto bad : {"", "h", "8x", "-1", "1h1h", "30m1h", "8 h", "1h30", "8H", "1e9", "99999999999999999999", "400000d", "inf",
                   "nan", "1ms1ms", "1ms1s", ".", "1.2.3", "1.2.3s", "..5s", "-0.3s", "0,3s", "0.3 s", "ms"})
    EXPECT_FALSE(parse_duration(bad)) << '"' << bad << '"';
}

TEST(Time, TakesUnitsAsPeopleWriteThem) {
  struct {
    const char* text;
    long seconds;
  } const cases[] = {{"90min", 5400}, {"1hour", 3600}, {"2hrs30mins", 9000}, {"3days", 259200}, {"10secs", 10}};
  for (auto [text, seconds] : cases) EXPECT_EQ(parse_duration(text), Seconds(seconds)) << text;
  for (auto bad : {"90 min", "1month", "1mi", "1minhour", "1min1m", "min", "1 hour"}) EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Time, TakesFractionsOfSeconds) {
  struct {
    const char* text;
    long thousandths;
  } const cases[] = {{"200ms", 200}, {"0.2s", 200},    {"0.3", 300},        {"1.5", 1500},  {"1.5s", 1500}, {"1s1ms", 1001},
                     {"2000ms", 2000}, {"1.15h", 4140'000}, {"0.1ms", 1}, {"0.0001s", 1}, {".5s", 500},  {"0.0s", 0}};
  for (auto [text, thousandths] : cases) EXPECT_EQ(parse_duration(text), Millis(thousandths)) << text;
}

TEST(Time, PrintsDurationsInTwoFigures) {
  struct { long seconds; const char* text;
  } const cases[] = {
      {0, "0s"},       {42, "42s"},     {60, "1m"},   {65, "1m5s"},     {300, "5m"},
      {4800, "1h20m"}, {4815, "1h20m"}, {3605, "1h"}, {183600, "2d3h"}, {-300, "-5m"},
  };
  for (auto [seconds, text] : cases) EXPECT_EQ(format_duration(Seconds(seconds)), text);
}

TEST(Time, PrintsAndTakesIsoInUtc) {
  WallTime when = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21) + hours(14) + minutes(20) + Seconds(5) + Millis(123);
  EXPECT_EQ(format_iso(when), "2026-11-21T14:20:05Z");
  EXPECT_EQ(parse_iso("2026-11-21T14:20:05Z"), when - Millis(123));
  EXPECT_EQ(parse_iso("2026-11-21T14:20:05.123Z"), when);
  EXPECT_EQ(format_iso(WallTime{}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_iso(WallTime{} - Millis(1)), "1969-12-31T23:59:59Z");
  for (auto bad :
       {"", "2026-11-21", "2026-11-21T14:20:05", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-21T24:00:00Z",
        "2026-11-21 14:20:05Z", "2026-11-21T14:20:05.1Z", "2026-11-2-T14:20:05Z", "2026-11-21T14:20:05+01:00"})
    EXPECT_FALSE(parse_iso(bad)) << '"' << bad << '"';
}

TEST(Time, ShowsTheShortestLocalClockThatIsClear) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  WallTime now = *parse_iso("2026-11-21T14:20:05Z");  // a Saturday
  EXPECT_EQ(format_local(now + hours(2), now), "16:20");
  EXPECT_EQ(format_local(now - hours(14), now), "00:20");
  EXPECT_EQ(format_local(now + hours(10), now), "Sun 00:20");
  EXPECT_EQ(format_local(now - days(5), now), "Mon 14:20");
  EXPECT_EQ(format_local(now - days(7), now), "2026-11-14 14:20");  // another Saturday
  EXPECT_EQ(format_local(now + days(365), now), "2027-11-21 14:20");
}

}  // namespace
}  // namespace thole
