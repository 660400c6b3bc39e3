#include "cli/render_run.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/render.hpp"

namespace thole::cli {

namespace {

using model::Json;

constexpr std::size_t holders_shown = 4;   // more would bury the sentence that matters

std::string ordinal(unsigned number) {
  const unsigned tens = number % 100;
  const char* ending = tens >= 11 && tens <= 13 ? "th" : number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
  return fmt::format("{}{}", number, ending);
}

// One line a claim: "GPU 0,1: anna until 14:20 (python train.py)".
std::string holders(const std::vector<model::Unit>& units, const std::vector<model::Holding>& holdings, WallTime now) {
  struct Claim { const model::Holding* holding; std::vector<std::string> labels; };
  std::vector<Claim> claims;
  for (const model::Unit& unit : units)
    for (const model::Holding& holding : holdings) {
      if (holding.key != unit.key) continue;
      auto same = std::find_if(claims.begin(), claims.end(), [&](const Claim& claim) {
        return !holding.id.empty() && claim.holding->id == holding.id;
      });
      if (same == claims.end()) same = claims.insert(claims.end(), Claim{&holding, {}});
      same->labels.push_back(unit.label);
    }
  std::string text;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (i == holders_shown) {
      text += fmt::format("\n  and {} more: thole status", claims.size() - i);
      break;
    }
    const model::Holding& holding = *claims[i].holding;
    text += fmt::format("\n  GPU {}: {}", join(claims[i].labels, ","), holder_name(holding));
    if (holding.until) text += fmt::format(" until {}", format_local(*holding.until, now));
    if (!holding.command.empty()) text += fmt::format(" ({})", printable(holding.command, 40));
  }
  return text;
}

Json units_to_json(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen, const model::Snapshot& snapshot) {
  Json list = Json::array();
  for (std::size_t index : chosen)
    list.push_back({{"gpu", units[index].label}, {"uuid", units[index].key}, {"model", units[index].model_of(snapshot.machine)}});
  return list;
}

}  // namespace

std::string name_units(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen, const model::Snapshot& snapshot) {
  if (chosen.empty()) return "no GPU";
  std::vector<std::string> labels, models;
  for (std::size_t index : chosen) {
    labels.push_back(units[index].label);
    std::string name = printable(short_model(units[index].model_of(snapshot.machine)), 40);
    if (!name.empty() && std::find(models.begin(), models.end(), name) == models.end()) models.push_back(std::move(name));
  }
  return fmt::format("GPU {}{}", join(labels, ","), models.empty() ? "" : fmt::format(" ({})", join(models, ", ")));
}

std::string render_waiting(const model::Wait& wait, const std::vector<model::Unit>& units, const std::vector<model::Holding>& holdings,
                           WallTime now) {
  std::string text = fmt::format("waiting, {} in line", ordinal(wait.position));
  if (wait.promise) text += fmt::format(", starts by {}", format_local(*wait.promise, now));
  text += "; Ctrl-C leaves the queue" + holders(units, holdings, now);
  if (wait.observe.any()) text += "\n  some that would do are used without a claim, or cannot be seen: thole status";
  if (wait.would_fit) text += fmt::format("\n  it would start now with --time {} or less", format_duration(*wait.would_fit));
  return text;
}

Json waiting_to_json(const model::Wait& wait) {
  return {{"position", wait.position},
          {"behind_ticket", wait.behind ? Json(*wait.behind) : Json(nullptr)},
          {"starts_by", wait.promise ? Json(format_iso(*wait.promise)) : Json(nullptr)},
          {"would_start_with_time_s", wait.would_fit ? Json(wait.would_fit->count()) : Json(nullptr)}};
}

std::string render_preview(const app::Preview& preview, const plan::Variables& variables, const model::Snapshot& snapshot,
                           const std::vector<model::Holding>& holdings, WallTime now) {
  if (const auto* wait = std::get_if<model::Wait>(&preview.decision)) {
    std::string text = render_waiting(*wait, preview.units, holdings, now);
    const std::string_view invitation = "; Ctrl-C leaves the queue";   // nobody is in the queue here
    if (const std::size_t at = text.find(invitation); at != std::string::npos) text.erase(at, invitation.size());
    return "would be " + text + "\n";
  }
  std::string text = fmt::format("would claim {}\n", name_units(preview.units, preview.chosen, snapshot));
  if (!preview.explain.empty()) text += fmt::format("  {}\n", printable(preview.explain));
  for (const auto& [name, value] : variables.set) text += fmt::format("  {}={}\n", name, shell_quote(value));
  return text;
}

Json preview_to_json(const app::Preview& preview, const plan::Variables& variables, const model::Snapshot& snapshot) {
  const auto* wait = std::get_if<model::Wait>(&preview.decision);
  return {{"schema", "thole/plan/1"},
          {"would", wait ? "wait" : "claim"},
          {"gpus", units_to_json(preview.units, preview.chosen, snapshot)},
          {"why", preview.explain.empty() ? Json(nullptr) : Json(preview.explain)},
          {"wait", wait ? waiting_to_json(*wait) : Json(nullptr)},
          {"set", variables.set},
          {"unset", variables.unset}};
}

Json ended_to_json(const port::Ended& ended) {
  const char* why = ended.time_limit ? "time-limit" : ended.released ? "released" : ended.signal ? "signal" : "exit";
  return {{"schema", "thole/ended/1"},
          {"who", "command"},
          {"why", why},
          {"exit_code", ended.exit_code ? Json(*ended.exit_code) : Json(nullptr)},
          {"signal", ended.signal ? Json(*ended.signal) : Json(nullptr)},
          {"core_dumped", ended.core},
          {"left_behind", ended.left_behind},
          {"message", nullptr}};
}

Json ended_to_json(const Error& error) {
  return {{"schema", "thole/ended/1"}, {"who", "thole"},         {"why", name(error.code())},
          {"exit_code", error.code() == ErrorCode::interrupted ? Json(nullptr) : Json(exit_status(error.code()))},
          {"signal", nullptr},         {"core_dumped", false},   {"left_behind", Json::array()},
          {"message", error.full()}};
}

}  // namespace thole::cli
