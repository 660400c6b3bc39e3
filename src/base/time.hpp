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

// "90s", "30m", "8h", "2d", "1h30m", "1.5h", "0.3s", "200ms", "45" and "1.5" (seconds), "0"; what is below a thousandth of a
// second counts as one. Whoever counts in whole seconds takes the next one.
std::optional<Millis> parse_duration(std::string_view text);

// The shortest exact-enough form for people: "42s", "5m", "1h20m", "2d3h".
std::string format_duration(Seconds duration);
std::string format_duration(Millis duration);   // 0.3s; whole seconds as above

// "2026-11-21T14:20:05Z" in UTC, and back.
std::string format_iso(WallTime when);
std::optional<WallTime> parse_iso(std::string_view text);

// Local clock for people: "14:20" today, "Tue 14:20" within a week, else "2026-11-21 14:20".
std::string format_local(WallTime when, WallTime now);

}  // namespace thole
