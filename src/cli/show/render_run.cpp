#include "cli/show/render_run.hpp"

#include <algorithm>

#include "app/claim/binding_json.hpp"
#include "base/text.hpp"
#include "cli/show/render.hpp"
#include "cli/show/render_binding.hpp"
#include "cli/show/terminal.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

using model::Json;

Json units_to_json(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen,
                   const model::Snapshot& snapshot) {
  Json list = Json::array();
  for (std::size_t index : chosen)
    list.push_back(
        {{"gpu", units[index].label}, {"uuid", units[index].key}, {"model", units[index].model_of(snapshot.machine)}});
  return list;
}

}  // namespace

std::string name_units(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen,
                       const model::Snapshot& snapshot) {
  if (chosen.empty()) return "no GPU";
  std::vector<std::string> labels, models;
  for (std::size_t index : chosen) {
    labels.push_back(units[index].label);
    std::string name = printable(short_model(units[index].model_of(snapshot.machine)), 40);
    if (!name.empty() && std::find(models.begin(), models.end(), name) == models.end()) models.push_back(std::move(name));
  }
  return fmt::format("GPU {}{}", join(labels, ","), models.empty() ? "" : fmt::format(" ({})", join(models, ", ")));
}

std::string render_waiting(const std::vector<std::string>& why, bool waits) {
  std::string text = waits ? "waiting" : "would be waiting";
  for (std::size_t i = 0; i < why.size(); ++i) text += (i == 0 ? ", " : "\n  ") + why[i];
  return text;
}

Json waiting_to_json(const model::Wait& wait, const std::vector<std::string>& why) {
  return {{"position", wait.position},
          {"behind_ticket", model::or_null(wait.behind)},
          {"starts_by", model::or_null(wait.promise)},
          {"would_start_with_time_s", model::or_null(wait.would_fit)},
          {"why", why}};
}

std::string render_preview(const app::Preview& preview, const std::optional<app::Binding>& binding,
                           const plan::Variables& variables, const model::Snapshot& snapshot,
                           const std::vector<std::string>& why, std::size_t columns) {
  const bool waits = std::holds_alternative<model::Wait>(preview.decision);
  std::string text = waits ? render_waiting(why, false) + "\n" : "";
  if (waits && preview.chosen.empty()) return fold(text, columns);
  text += fmt::format("{} {}\n", waits ? "were all of them free, it would claim" : "would claim",
                      name_units(preview.units, preview.chosen, snapshot));
  if (!preview.explain.empty()) text += fmt::format("  {}\n", printable(preview.explain));
  if (binding)
    for (const std::string& line : describe_binding(*binding, 0)) text += line + "\n";
  text = fold(text, columns);
  for (const auto& [name, value] : variables.set) text += fmt::format("  {}={}\n", name, printable(shell_quote(value), 4096));
  return text;
}

Json preview_to_json(const app::Preview& preview, const std::optional<app::Binding>& binding,
                     const plan::Variables& variables, const model::Snapshot& snapshot, const std::vector<std::string>& why) {
  const auto* wait = std::get_if<model::Wait>(&preview.decision);
  const Json chosen = units_to_json(preview.units, preview.chosen, snapshot);
  return {{"schema", "thole/plan/1"},
          {"would", wait ? "wait" : "claim"},
          {"gpus", wait ? Json::array() : chosen},
          {"if_free", wait ? chosen : Json(nullptr)},
          {"why", model::or_null(preview.explain)},
          {"wait", wait ? waiting_to_json(*wait, why) : Json(nullptr)},
          {"binding", binding ? binding_to_json(*binding) : Json(nullptr)},
          {"set", variables.set},
          {"unset", variables.unset}};
}

Json ended_to_json(const port::Ended& ended) {
  const char* why = ended.time_limit ? "time-limit" : ended.released ? "released" : ended.signal ? "signal" : "exit";
  return {{"schema", "thole/ended/1"},
          {"who", "command"},
          {"why", why},
          {"exit_code", model::or_null(ended.exit_code)},
          {"signal", model::or_null(ended.signal)},
          {"core_dumped", ended.core},
          {"left_behind", ended.left_behind},
          {"message", nullptr}};
}

Json ended_to_json(const Error& error) {
  return {{"schema", "thole/ended/1"},
          {"who", "thole"},
          {"why", name(error.code())},
          {"exit_code", error.code() == ErrorCode::interrupted ? Json(nullptr) : Json(exit_status(error.code()))},
          {"signal", nullptr},
          {"core_dumped", false},
          {"left_behind", Json::array()},
          {"message", error.full()}};
}

}  // namespace thole::cli
