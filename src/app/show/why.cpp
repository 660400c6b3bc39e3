#include "app/show/why.hpp"

#include <algorithm>
#include <set>

#include "app/claim/line_as_told.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/selection.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "plan/place/free.hpp"
#include "plan/place/why.hpp"
#include "plan/turn/turn.hpp"

namespace thole::app {

namespace {

// What the overview says, as plan speaks of it.
struct OverviewScene {
  std::vector<model::Unit> units;
  std::vector<plan::Verdict> verdicts;
  std::vector<model::Holding> holdings;
  std::vector<model::Waiting> queue;

  explicit OverviewScene(const Overview& overview) {
    for (const UnitOverview& row : overview.units) {
      units.push_back(row.unit);
      plan::Verdict verdict;
      verdict.why = row.why;
      verdicts.push_back(std::move(verdict));
      holdings.insert(holdings.end(), row.holdings.begin(), row.holdings.end());
    }
    for (const WaitingOverview& entry : overview.queue) queue.push_back(entry.waiting);
  }
};

// Somebody who sits on a claim without using it is named: that is what people come to ask.
std::optional<std::string> idle_claim(const UnitOverview& row, const model::Machine& machine) {
  const model::Use& use = row.unit.use_of(machine);
  if (row.holdings.empty() || !use.processes.known() || !(*use.processes).empty()) return std::nullopt;
  if (row.state == State::overdue) return "no process uses it at the moment, so anybody can claim it";
  return "no process uses it at the moment, but the claim holds it";
}

// The keeper has ended: the command of it, or what was started in it, has the locks and goes on.
std::vector<std::string> kept_by_commands(const model::Holding& holding, const WaysToEnd& ways_to_end) {
  const std::string ways = ways_to_end ? ways_to_end(holding.id, holding.uid) : "";
  if (ways.empty()) return {"what was started in it goes on, and nobody gets the GPU before that ends"};
  std::vector<std::string> lines{"what was started in it goes on, and nobody gets the GPU before that ends; to end it:"};
  for (const std::string_view way : split(ways, '\n'))
    if (const std::size_t begin = way.find_first_not_of(' '); begin != std::string_view::npos)
      lines.emplace_back(way.substr(begin));
  return lines;
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

// A mask that a claim of this shell has left behind: all that it shows are that claim's.
bool is_of_ended_claim(const plan::Environment& environment, const plan::Scene& scene, const plan::Outer& outer) {
  if (!shows_a_claim_alone(environment, scene.units, outer)) return false;
  const std::string& claim = environment.find("THOLE_CLAIM")->second;
  const std::string outermost = claim.substr(0, claim.find('/'));   // it lives on where it is another's
  return std::ranges::find(scene.holdings, outermost, &model::Holding::id) == scene.holdings.end();
}

// What a mask keeps from us: free GPUs that would do. (Inside a claim the mask is that claim's, and no news.)
void tell_left_out(Site& site, const model::Request& request, const std::vector<std::size_t>& eligible,
                   const plan::Scene& scene, std::vector<std::string>& lines) {
  const plan::Outer outer = plan::outer_allotment(site.observer.snapshot(), scene.units, site.environment);
  if (outer.named_by.empty()) return;
  plan::Outer whole = outer;
  whole.visible.assign(scene.units.size(), true);
  std::size_t free_ones = 0;
  for (const std::size_t unit : plan::eligible(request, site.observer.snapshot(), scene.units, whole).units)
    free_ones += std::ranges::find(eligible, unit) == eligible.end() && plan::explain_unit(unit, scene).empty();
  if (free_ones > 0)
    lines.push_back(fmt::format("{} more {} free, left out by {}", free_ones, free_ones == 1 ? "is" : "are", outer.named_by));
  if (!is_of_ended_claim(site.environment, scene, outer)) return;
  lines.emplace_back("this shell still has the variables of a claim that has ended:");
  lines.push_back(unset_claim_in(site.shell));
}

}  // namespace

std::vector<std::string> unverified(const std::vector<model::Holding>& holdings) {
  if (std::ranges::all_of(holdings, &model::Holding::verified)) return {};
  std::vector<std::string> sentences{
      "unverified: no note of its owner agrees with the kernel's lock, so the name may be wrong"};
  std::set<pid_t> keepers;
  for (const model::Holding& holding : holdings)
    if (holding.id.empty() && holding.pid > 0) keepers.insert(holding.pid);
  std::vector<std::string> pids;
  for (const pid_t pid : keepers) pids.push_back(std::to_string(pid));
  if (!pids.empty()) sentences.push_back("who keeps the lock has noted no claim: ps -o pid,user,args -p " + join(pids, ","));
  return sentences;
}

std::vector<std::string> over_its_time(const std::vector<model::Holding>& holdings, WallTime now,
                                       const WaysToEnd& ways_to_end) {
  for (const model::Holding& holding : holdings) {
    if (!holding.until || *holding.until > now) {
      // Let go of by who kept it: released, or that one was killed.
      const bool let_go = holding.held && !holding.overdue && holding.pid <= 0 && !holding.id.empty();
      if (let_go && ways_to_end && !ways_to_end(holding.id, holding.uid).empty()) return kept_by_commands(holding, ways_to_end);
      continue;
    }
    const std::string since = format_local(*holding.until, now);
    if (holding.overdue)
      return {fmt::format("its time is over since {}; what it was claimed for still runs, and keeps nobody from the GPU "
                          "unless it uses it", since)};
    if (holding.pid <= 0) return kept_by_commands(holding, ways_to_end);
    return {fmt::format("process {0} lives and has not let go: it is ending, or it was stopped (ps -o pid,stat,args -p {0}); "
                        "nobody gets the GPU before it ends", holding.pid)};
  }
  return {};
}

UnitWhy why_unit(const Overview& overview, std::size_t unit, const WaysToEnd& ways_to_end) {
  const UnitOverview& row = overview.units[unit];
  UnitWhy answer{row.unit.label, row.state, {}};
  if (row.holdings.empty()) {
    answer.sentences.push_back(when_unclaimed(row));
  } else {
    const OverviewScene scene(overview);
    if (row.state == State::sick) answer.sentences.push_back(row.why);
    answer.sentences.push_back(
        (row.state == State::shared ? "shared by " : row.state == State::overdue ? "no longer claimed by " : "claimed by ") +
        plan::explain_unit(unit, {scene.units, scene.verdicts, scene.holdings, scene.queue, overview.now}));
    if (row.state != State::sick && !row.why.empty()) answer.sentences.push_back(row.why);
    for (std::string& sentence : unverified(row.holdings)) answer.sentences.push_back(std::move(sentence));
  }
  const model::Machine& machine = overview.snapshot.machine;
  for (std::string& sentence : over_its_time(row.holdings, overview.now, ways_to_end))
    answer.sentences.push_back(std::move(sentence));
  for (auto more : {idle_claim(row, machine), room_for_sharers(row, machine), waiters(row, overview)})
    if (more) answer.sentences.push_back(std::move(*more));
  if (!row.visible)
    answer.sentences.push_back(fmt::format("not yours to take here: {} leaves it out", overview.outer.named_by));
  if (row.unit.gpu_of(machine).display.value_or(false)) answer.sentences.push_back("it drives a display, so it is taken last");
  return answer;
}

RequestWhy why_request(Site& site, const model::Request& request, const Overview& overview,
                       const WaysToEnd& ways_to_end) {
  RequestWhy answer;
  try {
    answer.preview = preview(site, request);
    if (const auto* wait = std::get_if<model::Wait>(&answer.preview->decision))
      answer.waiting = why_waiting(site, request, *wait);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage && error.code() != ErrorCode::unavailable) throw;
    answer.refused = error.full();
  }
  for (std::size_t unit = 0; unit < overview.units.size(); ++unit)
    answer.units.push_back(why_unit(overview, unit, ways_to_end));
  return answer;
}

std::vector<std::string> why_waiting(Site& site, const model::Request& request, const model::Wait& wait) {
  const model::Snapshot& snapshot = site.observer.snapshot();
  const std::vector<model::Unit>& units = site.observer.units();
  const std::optional<OuterClaim> around = outer_claim(site.store, site.environment);
  const OuterClaim* within = around ? &*around : nullptr;
  port::ClaimStore& store = within ? *within->store : site.store;   // inside a claim: who has and wants what of it
  const plan::Selection selection = select(site, request, within);
  model::Request settled = request;
  settled.gpus = selection.count;
  const bool ours = in_use(within, settled).by_us;
  std::vector<plan::Verdict> verdicts;
  for (const model::Unit& unit : units) {
    verdicts.push_back(plan::judge(unit, snapshot, request, site.policy, {}, site.user_name(site.uid)));
    if (ours && verdicts.back().standing != plan::Standing::sick) verdicts.back().why.clear();
  }
  const std::vector<model::Holding> holdings = by_units(store.holdings(), units, snapshot.machine);
  const std::vector<model::Waiting> queue = store.waiting();
  const plan::Scene scene{units, verdicts, holdings, queue, site.clock.wall()};
  std::vector<std::string> lines = plan::explain_wait(wait, request, selection.units, scene);
  if (within)
    lines.push_back(fmt::format("this is inside claim {} ({}): no other GPU would do", within->id, site.claim_named_by));
  else
    tell_left_out(site, request, selection.units, scene, lines);
  // Whom a sharer waits for may have the GPU alone only because somebody keeps the berths beside him.
  if (request.share)
    if (std::string kept_by = store.about().kept_by; !kept_by.empty()) lines.push_back(std::move(kept_by));
  return lines;
}

}  // namespace thole::app
