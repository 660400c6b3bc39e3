// Time as thole uses it: wall-clock instants for people, seconds for durations. Clocks enter as arguments.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thole {

using Seconds = std::chrono::seconds;
using Millis = std::chrono::milliseconds;
using WallTime = std::chrono::sys_time<Millis>;              // CLOCK_REALTIME; for display and declared ends
using SteadyTime = std::chrono::steady_clock::time_point;    // for waiting and grace periods only

// "90s", "30m", "8h", "2d", "1h30m", "1.5h", "45" (seconds), "0"; nothing when it is not a time of whole seconds.
std::optional<Seconds> parse_duration(std::string_view text);
// The next one of whole seconds, for "200ms" and "1.5s": what can be meant instead.
std::optional<Seconds> next_whole_duration(std::string_view text);

// The shortest exact-enough form for people: "42s", "5m", "1h20m", "2d3h".
std::string format_duration(Seconds duration);

// "2026-11-21T14:20:05Z" in UTC, and back.
std::string format_iso(WallTime when);
std::optional<WallTime> parse_iso(std::string_view text);

// Local clock for people: "14:20" today, "Tue 14:20" within a week, else "2026-11-21 14:20".
std::string format_local(WallTime when, WallTime now);

}  // namespace thole
