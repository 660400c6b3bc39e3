#include "base/time.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/text.hpp"

namespace thole {

namespace {

struct TimeUnit { std::string_view words; std::int64_t seconds; };   // the first word: as it is printed
constexpr TimeUnit units[] = {{" d day days ", 86400},
                              {" h hr hrs hour hours ", 3600},
                              {" m min mins minute minutes ", 60},
                              {" s sec secs second seconds ", 1}};

// The unit that goes by this word ("90min", "2hours"), in seconds; a thousandth of a second is 0 of them.
std::optional<std::int64_t> unit_named(std::string_view word) {
  if (word == "ms") return 0;
  for (const TimeUnit& unit : units)
    if (!word.empty() && unit.words.find(fmt::format(" {} ", word)) != std::string_view::npos) return unit.seconds;
  return std::nullopt;
}

constexpr double exact_enough = 1e-6;   // of a second or a thousandth, for 1.15h

// Longer than any wait or job, and added to any clock it cannot overflow.
constexpr std::int64_t longest = std::int64_t{1000} * 366 * 86400;

// "1h30m", "1.5h", "200ms", "45", "0.3".
std::optional<double> seconds_in(std::string_view text) {
  if (text.find_first_not_of("0123456789.") == std::string_view::npos) {
    const auto bare = parse_double(text);
    return bare && *bare <= static_cast<double>(longest) ? bare : std::nullopt;
  }
  double total = 0;
  std::int64_t last_unit = longest;              // units must come in falling order, each once
  while (!text.empty()) {
    const std::size_t number_end = text.find_first_not_of("0123456789.");
    if (number_end == std::string_view::npos || number_end == 0) return std::nullopt;
    const auto value = parse_double(text.substr(0, number_end));
    text.remove_prefix(number_end);
    const std::size_t word_end = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit = unit_named(text.substr(0, word_end));
    if (!value || !unit || *unit >= last_unit) return std::nullopt;
    total += *value * (*unit == 0 ? 0.001 : static_cast<double>(*unit));
    last_unit = *unit;
    text.remove_prefix(word_end);
  }
  return total > static_cast<double>(longest) ? std::nullopt : std::optional(total);
}

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  auto value = parse_u64(text.substr(at, count));
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

std::string strftime_local(const char* format, const std::tm& broken_down) {
  char buffer[64];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, format, &broken_down));
}

std::tm local(WallTime when) {
  std::time_t seconds = static_cast<std::time_t>(std::chrono::floor<Seconds>(when).time_since_epoch().count());
  std::tm broken_down{};
  ::localtime_r(&seconds, &broken_down);
  return broken_down;
}

}  // namespace

std::optional<Millis> parse_duration(std::string_view text) {
  const auto seconds = seconds_in(trim(text));
  if (!seconds) return std::nullopt;
  return Millis(static_cast<std::int64_t>(std::ceil(*seconds * 1000 - exact_enough)));
}

std::string format_duration(Millis duration) {
  const auto seconds = std::chrono::duration_cast<Seconds>(duration);
  return seconds == duration ? format_duration(seconds) : fmt::format("{}s", static_cast<double>(duration.count()) / 1000);
}

std::string format_duration(Seconds duration) {
  std::int64_t left = duration.count();
  std::string text = left < 0 ? "-" : "";
  if (left < 0) left = -left;
  for (std::size_t i = 0; i < std::size(units); ++i) {
    if (left < units[i].seconds && i + 1 < std::size(units)) continue;
    text += fmt::format("{}{}", left / units[i].seconds, units[i].words[1]);
    left %= units[i].seconds;
    // Two figures are enough for people, and only neighbours: 2d3h, 1h20m, 1m5s.
    if (i + 1 < std::size(units) && left >= units[i + 1].seconds)
      text += fmt::format("{}{}", left / units[i + 1].seconds, units[i + 1].words[1]);
    break;
  }
  return text;
}

std::string format_iso(WallTime when) {
  auto day = std::chrono::floor<std::chrono::days>(when);
  std::chrono::year_month_day date(day);
  std::chrono::hh_mm_ss time(std::chrono::floor<Seconds>(when - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), time.hours().count(), time.minutes().count(), time.seconds().count());
}

std::optional<WallTime> parse_iso(std::string_view text) {
  // Exactly "YYYY-MM-DDTHH:MM:SSZ", or with milliseconds "….123Z".
  constexpr std::string_view shape = "0000-00-00T00:00:00";
  if (text.size() < shape.size() + 1 || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != '0' && text[i] != shape[i]) return std::nullopt;
  auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                   std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  Millis fraction{0};
  if (text.size() != shape.size() + 1) {
    auto thousandths = digits(text, 20, 3);
    if (text.size() != shape.size() + 5 || text[19] != '.' || !thousandths) return std::nullopt;
    fraction = Millis(*thousandths);
  }
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + Seconds(*second) + fraction;
}

std::string format_local(WallTime when, WallTime now) {
  std::tm then = local(when), today = local(now);
  if (then.tm_year == today.tm_year && then.tm_yday == today.tm_yday) return strftime_local("%H:%M", then);
  // Six days, so that a weekday's name is never ambiguous.
  auto apart = when > now ? when - now : now - when;
  if (apart < std::chrono::days(6)) return strftime_local("%a %H:%M", then);
  return strftime_local("%Y-%m-%d %H:%M", then);
}

}  // namespace thole
