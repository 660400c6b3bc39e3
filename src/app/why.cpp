#include "app/why.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/turn.hpp"

namespace thole::app {

namespace {

std::string clock(WallTime when, WallTime now) { return when == WallTime{} ? "an unknown time" : format_local(when, now); }

std::string sentence_on(const model::Holding& holding, WallTime now) {
  std::string text = fmt::format("{} by {} since {}", holding.shared ? "shared" : "claimed", holding.user.empty() ? "somebody" : holding.user,
                                 clock(holding.since, now));
  if (holding.until) text += fmt::format(", until {}", clock(*holding.until, now));
  if (holding.shared && holding.memory_mib) text += fmt::format(", with a budget of {}", format_mib(*holding.memory_mib));
  if (holding.pid > 0) text += fmt::format(", pid {}", holding.pid);
  if (!holding.command.empty()) text += fmt::format(": {}", holding.command);
  if (!holding.verified) text += " (the record does not match the kernel's lock, so the name may be wrong)";
  return text;
}

// Somebody who sits on a claim without using it is named: that is what people come to ask.
std::optional<std::string> idle_claim(const UnitOverview& row, const model::Machine& machine) {
  const model::Use& use = row.unit.use_of(machine);
  if (row.holdings.empty() || !use.processes.known() || !(*use.processes).empty()) return std::nullopt;
  return "no process uses it at the moment, but the claim holds it";
}

std::optional<std::string> room_for_sharers(const UnitOverview& row, const model::Machine& machine) {
  const auto total = row.unit.memory_mib_of(machine);
  if (row.state != State::shared || !total) return std::nullopt;
  std::uint64_t taken = 0;
  for (const model::Holding& holding : row.holdings) {
    if (!holding.memory_mib) return "a sharer without a known budget: it counts as full";
    taken += *holding.memory_mib + plan::share_context_mib;
  }
  const std::uint64_t left = *total > taken + plan::share_context_mib ? *total - taken - plan::share_context_mib : 0;
  return fmt::format("the budgets leave room for one more sharer of {}", format_mib(left));
}

std::optional<std::string> waiters(const UnitOverview& row, const Overview& overview) {
  std::vector<std::string> names;
  for (const WaitingOverview& entry : overview.queue) {
    const auto& eligible = entry.waiting.eligible;
    if (std::find(eligible.begin(), eligible.end(), row.unit.key) != eligible.end()) names.push_back(entry.waiting.user);
  }
  if (names.empty()) return std::nullopt;
  return fmt::format("in line for it or others: {}", join(names, ", "));
}

std::string when_unclaimed(const UnitOverview& row) {
  if (row.state == State::idle) return "free: nobody has claimed it, and the driver reports no use that counts";
  if (!row.why.empty()) return row.why;
  return row.state == State::unknown ? "its use could not be observed, so it is not handed out" : to_string(row.state);
}

}  // namespace

UnitWhy why_unit(const Overview& overview, std::size_t unit) {
  const UnitOverview& row = overview.units[unit];
  UnitWhy answer{row.unit.label, row.state, {}};
  if (row.holdings.empty()) {
    answer.sentences.push_back(when_unclaimed(row));
  } else {
    if (row.state == State::sick) answer.sentences.push_back(row.why);
    for (const model::Holding& holding : row.holdings) answer.sentences.push_back(sentence_on(holding, overview.now));
    if (row.state != State::sick && !row.why.empty()) answer.sentences.push_back(row.why);
  }
  const model::Machine& machine = overview.snapshot.machine;
  for (auto more : {idle_claim(row, machine), room_for_sharers(row, machine), waiters(row, overview)})
    if (more) answer.sentences.push_back(std::move(*more));
  if (!row.visible) answer.sentences.push_back(fmt::format("not yours to take here: {} leaves it out", overview.outer.named_by));
  if (row.unit.gpu_of(machine).display.value_or(false)) answer.sentences.push_back("it drives a display, so it is taken last");
  return answer;
}

RequestWhy why_request(Site& site, const model::Request& request, const Overview& overview) {
  RequestWhy answer;
  try {
    answer.preview = preview(site, request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage && error.code() != ErrorCode::unavailable) throw;
    answer.refused = error.full();
  }
  for (std::size_t unit = 0; unit < overview.units.size(); ++unit) answer.units.push_back(why_unit(overview, unit));
  return answer;
}

}  // namespace thole::app
