#include "app/claim/line_as_told.hpp"

#include <algorithm>
#include <optional>
#include <utility>

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
  return state;
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
  ticket.uid = waiting.uid;
  ticket.count = waiting.count;
  ticket.shared = waiting.shared;
  ticket.share_with_any = waiting.share_with_any;
  ticket.trust_claims = waiting.trust_claims;
  ticket.beside = waiting.beside;
  ticket.memory_mib = waiting.memory_mib.value_or(0);
  ticket.time = waiting.time;
  ticket.leave = waiting.leave;
  ticket.since = waiting.since;
  ticket.stopped = waiting.stopped || !waiting.vouched;
  for (std::size_t slot = 0; slot < view.slots.size(); ++slot)
    if (std::find(waiting.eligible.begin(), waiting.eligible.end(), view.slots[slot].key) != waiting.eligible.end())
      ticket.eligible.set(slot);
  view.tickets.push_back(std::move(ticket));
}

}  // namespace thole::app
