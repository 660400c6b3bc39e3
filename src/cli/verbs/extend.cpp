// extend: gives a claim a new end.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/holding.hpp"
#include "app/claim/taken_back.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/claim_search.hpp"
#include "cli/context.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

// How long until this time of the day, as one says it of an appointment; three numbers are Slurm's hours, minutes and seconds.
std::optional<Seconds> until_clock(const std::string& text, WallTime now) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon != text.rfind(':') || colon + 3 != text.size()) return std::nullopt;
  try {
    return std::chrono::ceil<std::chrono::minutes>(begin_of({"extend", text}, now) - now);
  } catch (const Error&) {   // no such time
    return std::nullopt;
  }
}

int extend(Context& context) {
  const std::vector<std::string>& words = context.invocation.words;
  if (const auto from_now = until_clock(words.back(), context.wire.clock().wall()); from_now && *from_now > Seconds{0})
    throw Error(ErrorCode::usage,
                fmt::format("extend: expected a time from now, got {}, one of the clock", in_quotes(words.back())))
        .hint(fmt::format("thole extend {}{}", words.size() == 2 ? printable(words.front(), 40) + " " : "",
                          format_duration(*from_now)));
  if (words.size() == 2 && !parse_duration(words.back()) && parse_duration(words.front()))
    throw Error(ErrorCode::usage, "extend: the claim comes first, then the time")
        .hint(fmt::format("thole extend {} {}", printable(words.back(), 40), words.front()));
  // With a unit, as --time: "extend 0 8" for hours would end the command in 8 seconds.
  const std::string before = words.size() == 2 ? "extend " + printable(words.front(), 40) : "extend";
  const Seconds by = run_time_of({before, words.back()});
  const app::ClaimSearch search = claim_search(context);
  const app::KeptClaim claim = app::find_claim(search, words.size() == 2 ? words.front() : std::string());
  const WallTime until = app::extend(context.wire.control(), context.wire.clock(), claim, by);
  for (const std::string& key : app::taken_from(*search.store, claim))
    context.note(app::taken_back_text(printable(key, 60)));
  if (context.invocation.global.json)
    context.print_json(model::Json{{"schema", "thole/extended/1"}, {"id", claim.id}, {"until", format_iso(until)}});
  else
    context.note(fmt::format("claim {} ends {}", claim.id, format_local(until, context.wire.clock().wall())));
  return 0;
}

constexpr Example extend_examples[] = {
  {"thole extend 2h", "the claim of this shell ends two hours from now"},
  {"thole extend 5f2c19d0a4e8b731 30m", "the claim with this id ends half an hour from now"},
};

}  // namespace

extern constexpr Verb extend_verb = {
    .name = "extend",
    .group = "run",
    .summary = "give a claim a new end",
    .operands = "[CLAIM] TIME",
    .examples = extend_examples,
    .offer = Offer::claims,
    .min_words = 1,
    .max_words = 2,
    .run = extend,
};

}  // namespace thole::cli
