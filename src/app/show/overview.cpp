#include "app/show/overview.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "app/claim/line_as_told.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/place/free.hpp"
#include "plan/turn/turn.hpp"

namespace thole::app {

namespace {

State unit_state(const std::vector<model::Holding>& holdings, plan::Standing standing) {
  if (standing == plan::Standing::sick) return State::sick;
  for (const model::Holding& holding : holdings)
    if (holding.overdue) return State::overdue;
  if (!holdings.empty()) return holdings.front().shared ? State::shared : State::claimed;
  switch (standing) {
    case plan::Standing::free: return State::idle;
    case plan::Standing::foreign: return State::foreign;
    default: return State::unknown;
  }
}

// Nobody is seen to hold it, which says nothing.
void doubt(UnitOverview& row, const std::string& why) {
  if (!row.holdings.empty() || row.state == State::sick) return;
  if (row.state == State::idle) row.state = State::unknown;
  row.why = why + (row.why.empty() ? "" : "; " + row.why);
}

UnitOverview look_at(const model::Unit& unit, const OverviewSources& sources, std::vector<model::Holding> holdings) {
  const model::Snapshot& snapshot = sources.observer.snapshot();
  UnitOverview row;
  row.unit = unit;
  row.holdings = std::move(holdings);
  const model::Use& use = unit.use_of(snapshot.machine);
  const std::set<std::string> holders = users_of(row.holdings);
  const std::vector<pid_t> own = pids_of_holders(use, holders);
  if (use.processes.known())
    for (const model::GpuProcess& process : *use.processes)
      if (!is_of_a_holder(process, holders)) row.strangers.push_back(process);
  const plan::Verdict verdict = plan::judge(unit, snapshot, model::Request{}, sources.policy, own, "");
  row.state = unit_state(row.holdings, verdict.standing);
  const bool claimed = row.state == State::claimed || row.state == State::shared;
  if (!claimed || !row.strangers.empty()) row.why = verdict.why;
  for (const model::Holding& holding : row.holdings) row.mine = row.mine || holding.uid == sources.uid;
  return row;
}

}  // namespace

const char* to_string(State state) {
  switch (state) {
    case State::idle: return "idle";
    case State::claimed: return "claimed";
    case State::shared: return "shared";
    case State::overdue: return "overdue";
    case State::foreign: return "foreign";
    case State::sick: return "sick";
    case State::unknown: return "unknown";
  }
  return "unknown";
}

bool is_programs_fault(int xid) {
  constexpr int faults[] = {13, 31, 43, 45, 69};
  return std::find(std::begin(faults), std::end(faults), xid) != std::end(faults);
}

Overview look_over(const OverviewSources& sources) {
  Overview overview;
  overview.uid = sources.uid;
  overview.claims_problem = sources.claims_problem;
  std::vector<model::Holding> holdings;
  std::vector<model::Waiting> waiting;
  std::vector<port::OutOfReach> out_of_reach;
  bool unread = !sources.store && !sources.claims_problem.empty();
  if (sources.store) try {
      holdings = sources.store->holdings();
      waiting = sources.store->waiting();
      port::StoreAbout about = sources.store->about();
      overview.claims_problem = std::move(about.kept_by);
      out_of_reach = std::move(about.out_of_reach);
    } catch (const Error& error) {
      overview.claims_problem = error.full();
      unread = true;
    }
  overview.now = sources.clock.wall();
  overview.snapshot = sources.observer.snapshot();
  const std::vector<model::Unit>& units = sources.observer.units();
  holdings = by_units(std::move(holdings), units, overview.snapshot.machine);
  overview.outer = plan::outer_allotment(overview.snapshot, units, sources.environment);

  LineAsTold line;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto others = std::stable_partition(holdings.begin(), holdings.end(),
                                              [&](const model::Holding& holding) { return holding.key != units[i].key; });
    std::vector<model::Holding> own(others, holdings.end());
    holdings.erase(others, holdings.end());
    overview.units.push_back(look_at(units[i], sources, std::move(own)));
    UnitOverview& row = overview.units.back();
    const auto kept_off = std::ranges::find(out_of_reach, units[i].key, &port::OutOfReach::key);
    if (unread) doubt(row, "it may be claimed: claims cannot be read");
    else if (kept_off != out_of_reach.end()) doubt(row, kept_off->why);
    row.visible = overview.outer.visible.empty() || overview.outer.visible[i];
    plan::SlotState state = slot_state(units[i], overview.snapshot, sources.common_policy, row.holdings);
    if (row.state == State::unknown) state.usable = state.kept_by_use = false;
    line.add(units[i].key, row.holdings, state, overview.now);
  }
  overview.unseen = std::move(holdings);
  for (const model::Waiting& ticket : waiting) line.add(ticket);
  const auto promises = plan::promises(line.view, line.states, overview.now);
  for (std::size_t i = 0; i < waiting.size(); ++i) overview.queue.push_back({std::move(waiting[i]), promises[i]});
  return overview;
}

NamedGpus gpus_named(const std::vector<std::string>& words, const Overview& overview) {
  std::vector<model::Unit> units;
  for (const UnitOverview& row : overview.units) units.push_back(row.unit);
  NamedGpus named;
  const auto add = [](std::vector<std::size_t>& list, std::size_t number) {
    if (std::find(list.begin(), list.end(), number) == list.end()) list.push_back(number);
  };
  for (const std::string& word : words) {
    const auto index = parse_u64(word);  // also that of a partitioned GPU without instances, which has no unit
    if (index && *index < overview.snapshot.machine.gpus.size()) {
      add(named.gpus, *index);
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        if (units[unit].gpu == *index) add(named.units, unit);
      continue;
    }
    for (std::size_t unit : plan::resolve(word, overview.snapshot, units)) {
      add(named.gpus, units[unit].gpu);
      add(named.units, unit);
    }
  }
  std::sort(named.units.begin(), named.units.end());
  return named;
}

}  // namespace thole::app
