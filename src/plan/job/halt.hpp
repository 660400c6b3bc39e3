// When `map` ends before its items do, in the words of GNU parallel: never, soon,fail=1, now,success=1, now,done=3.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace thole::plan {

struct Halt {
  enum class When { never, soon, now };          // soon: what runs may end; now: it is ended
  enum class What { fail, success, done };
  When when = When::never;
  What what = What::fail;
  std::uint64_t count = 1;

  bool operator==(const Halt&) const = default;
};

// Nothing when it is none of these forms.
std::optional<Halt> parse_halt(std::string_view text);

struct Tally {                                   // of tasks
  std::uint64_t succeeded = 0, failed = 0;
};

// Asked after every task.
bool must_halt(const Halt& halt, const Tally& so_far);

// The exit status of a whole run, GNU parallel's: how many failed, 101 for more than 100; where one task halted it, that task's
// (`halted_by`: its exit status, or 128 + its signal).
int map_exit_status(const Halt& halt, const Tally& all, std::optional<int> halted_by);

}  // namespace thole::plan
