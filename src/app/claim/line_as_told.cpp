#include "app/claim/line_as_told.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace thole::app {

plan::SlotState slot_state(const model::Unit& unit, const model::Machine& machine, const plan::Verdict& seen, bool is_claimed) {
  plan::SlotState state;
  state.sick = seen.standing == plan::Standing::sick;
  state.usable = is_claimed ? !state.sick : seen.standing == plan::Standing::free;
  state.memory_mib = unit.memory_mib_of(machine).value_or(0);
  state.one_process = plan::admits_one_process(unit.gpu_of(machine));
  if (is_claimed) return state;
  state.unclaimed_mib = seen.unclaimed_mib;
  state.kept_by_use = seen.kept_by_use;
  state.used_by = seen.used_by;
  state.used_by_unseen = seen.used_by_unseen;
  const model::Use& use = unit.use_of(machine);
  if (use.utilization_percent) state.load_percent = *use.utilization_percent;
  if (use.memory_used_mib && state.memory_mib != 0)
    state.memory_percent = 100.0 * static_cast<double>(*use.memory_used_mib) / static_cast<double>(state.memory_mib);
  return state;
}

bool is_of_a_holder(const model::GpuProcess& process, const std::set<std::string>& holders) {
  return !holders.empty() && (process.user.empty() || holders.contains(process.user));
}

std::set<std::string> users_of(const std::vector<model::Holding>& holdings) {
  std::set<std::string> users;
  for (const model::Holding& holding : holdings) users.insert(holding.user);
  return users;
}

std::vector<pid_t> pids_of_holders(const model::Use& use, const std::set<std::string>& holders) {
  std::vector<pid_t> pids;
  if (!use.processes.known()) return pids;
  for (const model::GpuProcess& process : *use.processes)
    if (is_of_a_holder(process, holders)) pids.push_back(process.pid);
  return pids;
}

plan::SlotState slot_state(const model::Unit& unit, const model::Snapshot& snapshot, const model::FreePolicy& policy,
                           const std::vector<model::Holding>& holdings) {
  const std::vector<pid_t> own = pids_of_holders(unit.use_of(snapshot.machine), users_of(holdings));
  const plan::Verdict seen = plan::judge(unit, snapshot, model::Request{}, policy, own, "");
  plan::SlotState state = slot_state(unit, snapshot.machine, seen, !holdings.empty());
  std::vector<std::optional<std::uint64_t>> asked;
  for (const model::Holding& holding : holdings) asked.push_back(holding.memory_mib);
  state.unclaimed_mib = seen.unclaimed_mib + beyond_their_shares(unit.use_of(snapshot.machine), asked);
  return state;
}

std::uint64_t beyond_their_shares(const model::Use& use, const std::vector<std::optional<std::uint64_t>>& asked_mib) {
  std::uint64_t used = 0, asked = 0;
  if (asked_mib.empty() || !use.processes.known()) return 0;
  for (const model::GpuProcess& process : *use.processes)
    if (process.user.empty()) used += process.memory_mib.value_or(0);
  for (const std::optional<std::uint64_t>& one : asked_mib) {
    if (!one) return 0;
    asked += *one + plan::share_context_mib;
  }
  return used > asked ? used - asked : 0;
}

namespace {

bool is_of_all_around(const model::Holding& holding, const model::Unit& unit, const model::Machine& machine) {
  return holding.held && unit.instance && holding.key == unit.whole_key(machine);
}

}  // namespace

std::map<std::string, std::string> parts_of_claimed(const std::vector<model::Unit>& units, const model::Machine& machine,
                                                    port::ClaimStore& store) {
  std::map<std::string, std::string> parts;
  std::vector<std::string> wholes;
  for (const model::Unit& unit : units)
    if (unit.instance) wholes.push_back(unit.whole_key(machine));
  if (wholes.empty() || !store.knows_any(wholes)) return parts;
  for (const model::Holding& holding : store.holdings())
    for (const model::Unit& unit : units)
      if (is_of_all_around(holding, unit, machine))
        parts.emplace(unit.key, fmt::format("{} has claimed all of GPU {}",
                                            holding.user.empty() ? "somebody" : printable(holding.user, 32), unit.gpu));
  return parts;
}

std::vector<model::Holding> by_units(std::vector<model::Holding> holdings, const std::vector<model::Unit>& units,
                                     const model::Machine& machine) {
  std::vector<model::Holding> all;
  for (model::Holding& holding : holdings) {
    const std::size_t before = all.size();
    for (const model::Unit& unit : units) {
      if (!is_of_all_around(holding, unit, machine)) continue;
      all.push_back(holding);
      all.back().key = unit.key;
    }
    if (all.size() == before) all.push_back(std::move(holding));
  }
  return all;
}

void LineAsTold::add(const std::string& key, const std::vector<model::Holding>& holdings, plan::SlotState state, WallTime now) {
  if (view.slots.size() == model::max_slots) return;
  model::SlotView slot{key, {}};
  for (const model::Holding& holding : holdings) {
    slot.holders.push_back({holding.uid, holding.shared, holding.share_with_any, holding.memory_mib,
                            model::counted_end(holding.until, now)});
  }
  view.slots.push_back(std::move(slot));
  states.push_back(state);
}

void LineAsTold::add(const model::Waiting& waiting) {
  model::TicketView ticket;
  ticket.number = waiting.ticket;
  static_cast<model::Terms&>(ticket) = waiting;
  ticket.uid = waiting.uid;
  ticket.since = waiting.since;
  ticket.stopped = waiting.stopped || !waiting.vouched;
  for (std::size_t slot = 0; slot < view.slots.size(); ++slot)
    if (std::find(waiting.eligible.begin(), waiting.eligible.end(), view.slots[slot].key) != waiting.eligible.end())
      ticket.eligible.set(slot);
  view.tickets.push_back(std::move(ticket));
}

}  // namespace thole::app
