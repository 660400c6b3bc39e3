#include "plan/job/halt.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::plan {

std::optional<Halt> parse_halt(std::string_view text) {
  if (text == "never") return Halt{};
  const auto parts = split(text, ',');
  if (parts.size() != 2 || (parts[0] != "soon" && parts[0] != "now")) return std::nullopt;
  Halt halt;
  halt.when = parts[0] == "soon" ? Halt::When::soon : Halt::When::now;
  const auto sides = split(parts[1], '=');
  if (sides.size() != 2) return std::nullopt;
  if (sides[0] == "fail") halt.what = Halt::What::fail;
  else if (sides[0] == "success") halt.what = Halt::What::success;
  else if (sides[0] == "done") halt.what = Halt::What::done;
  else return std::nullopt;
  const auto count = parse_u64(sides[1]);
  if (!count || *count == 0) return std::nullopt;
  halt.count = *count;
  return halt;
}

bool must_halt(const Halt& halt, const Tally& so_far) {
  if (halt.when == Halt::When::never) return false;
  switch (halt.what) {
    case Halt::What::fail: return so_far.failed >= halt.count;
    case Halt::What::success: return so_far.succeeded >= halt.count;
    case Halt::What::done: return so_far.failed + so_far.succeeded >= halt.count;
  }
  return false;
}

int map_exit_status(const Halt& halt, const Tally& all, std::optional<int> halted_by) {
  if (halted_by && halt.what == Halt::What::success) return 0;
  if (halted_by && halt.count == 1) return *halted_by;
  return static_cast<int>(std::min<std::uint64_t>(all.failed, 101));
}

}  // namespace thole::plan
