#include <algorithm>

#include "base/text.hpp"
#include "cli/show/render.hpp"

namespace thole::cli {

using app::State;
using app::UnitOverview;

namespace {

// What stands for a figure that is not there.
template <class T>
std::string_view absent(const model::Metric<T>& metric) {
  return metric.state() == model::Metric<T>::State::unsupported ? "-" : "?";
}

std::string gib(std::uint64_t mib, bool whole) {
  const double gib = static_cast<double>(mib) / 1024;
  return whole ? fmt::format("{:.0f}", gib) : fmt::format("{:.1f}", gib);
}

std::string labels(const std::vector<UnitOverview>& units, bool (*wanted)(const UnitOverview&)) {
  std::string text;
  for (const UnitOverview& unit : units)
    if (wanted(unit)) text += (text.empty() ? "" : ",") + unit.unit.label;
  return text;
}

}  // namespace

std::string short_model(std::string_view model) {
  constexpr std::string_view makers[] = {"NVIDIA ", "AMD Instinct ", "AMD ", "Intel(R) ", "Intel ", "Tesla "};
  for (std::string_view maker : makers)
    if (model.starts_with(maker)) model.remove_prefix(maker.size());
  return std::string(model);
}

std::string figure(const model::Metric<double>& metric, std::string_view unit) {
  return metric.known() ? fmt::format("{:.0f}{}", *metric, unit) : std::string(absent(metric));
}

std::string memory_use(const model::Metric<std::uint64_t>& used, std::optional<std::uint64_t> total) {
  const std::string left = used.known() ? gib(*used, false) : std::string(absent(used));
  if (!total) return left + (used.known() ? "G/?" : "/?");
  return fmt::format("{}/{}G", left, gib(*total, *total >= 10240));
}

std::string holder_name(const model::Holding& holding) {
  if (holding.user.empty()) return "?";
  return (holding.verified ? "" : "?") + printable(holding.user, 32);  // in front, where it is never cut off
}

std::string brief_model(const std::string& name) {
  constexpr std::string_view fillers[] = {
      "Data Center GPU ", "GeForce ", "Instinct ", " Generation", "Quadro ", "-PCIE", "-SXM2", "-SXM4", " HBM3", "-SXM3"};
  std::string text = name;
  for (std::string_view filler : fillers)
    if (std::size_t at = text.find(filler); at != std::string::npos) text.erase(at, filler.size());
  return text;
}

Ink ink_of(State state) {
  switch (state) {
    case State::idle: return Ink::green;
    case State::sick: return Ink::red;
    case State::foreign:
    case State::overdue:
    case State::unknown: return Ink::yellow;
    default: return Ink::plain;
  }
}

std::string sum_of(const app::Overview& overview) {
  constexpr std::pair<State, std::string_view> words[] = {
      {State::idle, "free"},       {State::claimed, "claimed"}, {State::shared, "shared"},  {State::overdue, "overdue"},
      {State::foreign, "foreign"}, {State::sick, "sick"},       {State::unknown, "unknown"}};
  std::string text;
  for (auto [state, word] : words) {
    const auto count = std::count_if(overview.units.begin(), overview.units.end(),
                                     [s = state](const UnitOverview& u) { return u.state == s; });
    if (count != 0 || state == State::idle) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word);
  }
  const std::string mine = labels(overview.units, [](const UnitOverview& unit) { return unit.mine; });
  return mine.empty() ? text : text + "; yours: " + mine;
}

std::string outer_mask(const app::Overview& overview, const Screen& screen) {
  std::string text;
  if (!overview.outer.named_by.empty()) {
    const std::string visible = labels(overview.units, [](const UnitOverview& unit) { return unit.visible; });
    text = paragraph(
        screen, fmt::format("{} leaves you {} here.", overview.outer.named_by, visible.empty() ? "no GPU" : "GPU " + visible));
  }
  for (const std::string& caution : overview.outer.cautions) text += paragraph(screen, printable(caution));
  return text;
}

std::string claims_problem(const app::Overview& overview, const Screen& screen) {
  return overview.claims_problem.empty() ? "" : paragraph(screen, "claims: " + overview.claims_problem);
}

std::string problems_of(const app::Overview& overview, const Screen& screen) {
  std::string text;
  for (const model::Observation& observation : overview.snapshot.observations) {
    std::string problem = observation.problem;
    if (observation.age) {
      const Seconds age = std::chrono::duration_cast<Seconds>(*observation.age);
      problem += fmt::format("{}memory, load and processes are {} old", problem.empty() ? "" : "; ", format_duration(age));
    }
    if (!problem.empty()) text += paragraph(screen, fmt::format("{}: {}", observation.backend, printable(problem)));
  }
  return text + claims_problem(overview, screen);
}

}  // namespace thole::cli
