#include "plan/turn/put_off.hpp"

#include <algorithm>
#include <limits>

#include "plan/turn/turn.hpp"

namespace thole::plan {
namespace {

constexpr Seconds as_good_as_equal{1};           // ends are told in whole seconds

}  // namespace

std::vector<model::InLine> passed_by(const model::QueueView& queue, std::optional<std::uint64_t> mine,
                                     const model::SlotSet& taken) {
  std::vector<model::InLine> passed;
  for (const model::TicketView& ticket : queue.tickets)
    if (!ticket.stopped && (!mine || ticket.number < *mine) && (ticket.eligible & taken).any())
      passed.emplace_back(ticket.number, ticket.uid);
  return passed;
}

std::optional<PutOff> put_off(const model::QueueView& queue, const model::SlotSet& held, std::uint32_t uid, WallTime until,
                              std::span<const model::InLine> passed, WallTime now) {
  constexpr SlotState usable{.usable = true, .memory_mib = std::numeric_limits<std::uint32_t>::max(),
                             .unclaimed_mib = 0, .sick = false};
  const std::vector<SlotState> states(queue.slots.size(), usable);
  model::QueueView later = queue;
  for (std::size_t slot = 0; slot < later.slots.size(); ++slot)
    for (model::SlotHolder& holder : later.slots[slot].holders)
      if (held.test(slot) && holder.uid == uid) holder.until = until;
  const auto before = promises(queue, states, now), after = promises(later, states, now);
  for (std::size_t i = 0; i < queue.tickets.size(); ++i) {
    const model::TicketView& ticket = queue.tickets[i];
    if (!before[i] || std::ranges::find(passed, model::InLine{ticket.number, ticket.uid}) == passed.end()) continue;
    if (!after[i] || *after[i] > *before[i] + as_good_as_equal) return PutOff{ticket.uid, *before[i]};
  }
  return std::nullopt;
}

}  // namespace thole::plan
