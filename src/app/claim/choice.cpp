#include "app/claim/choice.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "app/claim/line_as_told.hpp"

namespace thole::app {
namespace {

// After a claim's end: how long what it ran may still be seen. After its beginning: by when its own look was.
constexpr Millis wake{5'000};
// The same for who knows of no such claim: as long as its successor would wait for what it ran (acquire.cpp).
constexpr Millis may_end{2'000};

}  // namespace

Choice::Choice(const Site& site, const model::Request& request, InUse around)
    : site_(site), request_(request), around_(around) {
  look_again();
}

void Choice::look_again() {
  const auto& snapshot = site_.observer.snapshot();
  looked_ = site_.clock.steady();
  number_anew();
  verdicts_.clear();
  to_anybody_.clear();
  for (const model::Unit& unit : site_.observer.units()) {
    verdicts_.push_back(plan::judge(unit, snapshot, request_, site_.policy, {}, my_user()));
    to_anybody_.push_back(to_anybody(unit, {}));
    const auto avoided = avoided_.find(unit.key);
    if (avoided == avoided_.end()) continue;
    for (plan::Verdict* verdict : {&verdicts_.back(), &to_anybody_.back()}) {
      if (verdict->standing == plan::Standing::sick) continue;
      *verdict = plan::Verdict{};
      verdict->standing = plan::Standing::foreign;
      verdict->why = avoided->second;
    }
  }
  note_used();
}

void Choice::avoid(std::map<std::string, std::string> whys) {
  if (whys == avoided_) return;
  avoided_ = std::move(whys);
  look_again();
}

// A GPU that leaves the driver's list, or comes back, shifts the numbers of those after it.
void Choice::number_anew() {
  std::vector<std::string> keys;
  for (const model::Unit& unit : site_.observer.units()) keys.push_back(unit.key);
  if (keys == keys_) return;
  for (std::vector<std::size_t>* units : {&eligible_, &chosen_, &beside_}) {
    std::vector<std::size_t> still_there;
    for (const std::size_t unit : *units)
      if (const auto now = std::ranges::find(keys, keys_[unit]); now != keys.end())
        still_there.push_back(static_cast<std::size_t>(now - keys.begin()));
    *units = std::move(still_there);
  }
  std::ranges::sort(eligible_);
  std::ranges::sort(beside_);
  unit_of_.clear();                              // until the next step
  keys_ = std::move(keys);
}

plan::Verdict Choice::to_anybody(const model::Unit& unit, const std::vector<pid_t>& own) const {
  return plan::judge(unit, site_.observer.snapshot(), model::Request{}, site_.common_policy, own, "");
}

void Choice::trust_next_look() {
  for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
    if (unit_of_[slot] && std::find(chosen_.begin(), chosen_.end(), *unit_of_[slot]) != chosen_.end())
      claimed_.erase(site_.observer.units()[*unit_of_[slot]].key);
}

// Of what was not claimed at the last step, nor a moment before. It may have been claimed since: the next step tells.
void Choice::note_used() {
  const auto& units = site_.observer.units();
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    Claimed& one = claimed_[units[unit].key];
    if (to_anybody_[unit].kept_by_use) one.used_since = one.used_since.value_or(looked_);
    else one.used_since.reset();
    if (one.is_free && !is_in_wake(one)) one.looks_used = to_anybody_[unit].standing != plan::Standing::free;
  }
}

bool Choice::is_in_wake(const Claimed& seen) const { return seen.last && looked_ <= *seen.last + wake; }

void Choice::note_claimed(const model::QueueView& queue) {
  const SteadyTime now = site_.clock.steady();
  for (const model::SlotView& slot : queue.slots) {
    if (slot.key.empty()) continue;
    Claimed& seen = claimed_[slot.key];
    const bool looks_used = std::exchange(seen.looks_used, false);
    const bool was_free = std::exchange(seen.is_free, slot.holders.empty());
    if (seen.is_free) {
      if (was_free && looked_ > noted_)          // for long enough to be no claim's that has ended
        seen.was_used = looks_used && seen.used_since && looked_ >= *seen.used_since + may_end;
      seen.since.reset();
      continue;
    }
    if (!seen.since) seen.since = now;
    seen.last = now;
    if (now > *seen.since + wake) seen.was_used = false;   // its owner has seen that it is not
  }
  noted_ = now;
}

// What was seen on it.
bool Choice::is_its_owners(const model::SlotView& slot) const {
  const auto seen = claimed_.find(slot.key);
  if (seen == claimed_.end()) return false;
  return (!slot.holders.empty() || is_in_wake(seen->second)) && !seen->second.was_used;
}

bool Choice::has_sharers(std::size_t unit) const { return std::binary_search(beside_.begin(), beside_.end(), unit); }

bool Choice::may_be_ending(const model::SlotView& slot) const {
  const auto seen = claimed_.find(slot.key);
  return seen != claimed_.end() && slot.holders.empty() && seen->second.used_since &&
         looked_ < *seen->second.used_since + may_end;
}

std::vector<pid_t> Choice::strangers(const model::SlotSet& slots) const {
  std::vector<pid_t> pids;
  for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
    if (slots.test(slot) && unit_of_[slot])
      pids.insert(pids.end(), verdicts_[*unit_of_[slot]].wait_for.begin(), verdicts_[*unit_of_[slot]].wait_for.end());
  return pids;
}

model::Decision Choice::operator()(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                                   WallTime now) {
  map_slots(queue);
  note_claimed(queue);
  fill_states(queue, mine, wants);
  ordered_ = queue.ordered;
  return grace_.decide(queue, mine, site_.clock.steady(), [&](const model::QueueView& shown) {
    return plan::decide(shown, mine, wants, states_, [&](const model::SlotSet& free) { return choose(queue, free); }, now);
  });
}

std::optional<plan::Placement> Choice::if_all_were_free() const {
  std::vector<plan::Candidate> candidates;
  for (const std::size_t unit : eligible_)
    if (verdicts_[unit].standing != plan::Standing::sick) candidates.push_back({unit, verdicts_[unit].last_resort});
  return plan::place(request_, site_.observer.snapshot(), site_.observer.units(), candidates);
}

std::string Choice::my_user() const {
  return request_.beside == model::Beside::mine ? site_.user_name(site_.uid) : std::string();
}

void Choice::map_slots(const model::QueueView& queue) {
  const auto& units = site_.observer.units();
  unit_of_.assign(queue.slots.size(), std::nullopt);
  for (std::size_t slot = 0; slot < queue.slots.size(); ++slot) unit_of_[slot] = model::index_of(queue.slots[slot].key, units);
}

void Choice::fill_states(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants) {
  const auto& units = site_.observer.units();
  const auto& machine = site_.observer.snapshot().machine;
  states_.assign(queue.slots.size(), plan::SlotState{});
  const bool any_shares = request_.share || std::ranges::any_of(queue.tickets, &model::TicketView::shared);
  const bool by_load = std::ranges::any_of(queue.tickets, [](const auto& one) { return one.beside != model::Beside::none; });
  lacks_load_ = is_unsure_ = false;
  for (std::size_t slot = 0; slot < queue.slots.size(); ++slot) {
    if (!unit_of_[slot]) continue;
    const model::Unit& unit = units[*unit_of_[slot]];
    const bool claimed = around_.by_us || is_its_owners(queue.slots[slot]);
    const bool is_ending = !claimed && may_be_ending(queue.slots[slot]);
    is_unsure_ = is_unsure_ || (is_ending && std::ranges::any_of(queue.tickets, [&](const model::TicketView& one) {
                                  return one.eligible[slot] && (one.eligible & wants.eligible).any() && !one.stopped &&
                                         (!mine || one.number < *mine);
                                }));
    const plan::Verdict &own = verdicts_[*unit_of_[slot]], &seen = to_anybody_[*unit_of_[slot]];
    plan::SlotState& state = states_[slot];
    state = slot_state(unit, machine, seen, claimed);
    lacks_load_ = lacks_load_ || (by_load && state.kept_by_use && !state.load_percent);
    state.usable_to_me = own.standing == plan::Standing::free || (claimed && own.standing != plan::Standing::sick);
    // The context that the claim around has paid for is there for the first within.
    if (around_.share_mib) state.memory_mib = std::min(state.memory_mib, *around_.share_mib + plan::share_context_mib);
    const auto& holders = queue.slots[slot].holders;
    if (any_shares && !around_.by_us && !holders.empty() && std::ranges::all_of(holders, &model::SlotHolder::shared))
      state.unclaimed_mib = unclaimed_beside(unit, queue.slots[slot]);
  }
}

// Memory in use on a shared unit that does not belong to its sharers, told apart by user.
std::uint64_t Choice::unclaimed_beside(const model::Unit& unit, const model::SlotView& slot) const {
  const model::Use& use = unit.use_of(site_.observer.snapshot().machine);
  if (!use.processes.known()) return 0;
  std::set<std::string> holders;
  std::vector<std::optional<std::uint64_t>> asked;
  for (const model::SlotHolder& holder : slot.holders) {
    holders.insert(site_.user_name(holder.uid));
    asked.push_back(holder.memory_mib);
  }
  return to_anybody(unit, pids_of_holders(use, holders)).unclaimed_mib + beyond_their_shares(use, asked);
}

std::optional<std::vector<unsigned>> Choice::choose(const model::QueueView& queue, const model::SlotSet& free) {
  std::vector<plan::Candidate> candidates;
  for (std::size_t slot = 0; slot < unit_of_.size(); ++slot) {
    if (!unit_of_[slot] || avoided_.contains(queue.slots[slot].key)) continue;
    const bool mine = free.test(slot), idle = queue.slots[slot].holders.empty() && *states_[slot].usable_to_me;
    if (mine || idle) candidates.push_back({*unit_of_[slot], verdicts_[*unit_of_[slot]].last_resort, mine});
  }
  model::Request request = request_;
  request.order = those_there(std::move(request.order), site_);
  // Who may be choosing the first ones at this moment cannot be waited for without end: from the other end it is less likely
  // that both take the same. A sharer goes where sharers are; what the request says of the choice is not touched.
  if (queue.neighbours_choose && !request.share && request.pick == model::Pick::pack && request.order.empty())
    request.pick = model::Pick::last;
  auto placement = plan::place(request, site_.observer.snapshot(), site_.observer.units(), candidates);
  if (!placement) return std::nullopt;
  std::vector<unsigned> slots;
  beside_.clear();
  for (std::size_t slot = 0; slot < unit_of_.size(); ++slot) {
    if (!unit_of_[slot] || !std::binary_search(placement->units.begin(), placement->units.end(), *unit_of_[slot])) continue;
    slots.push_back(static_cast<unsigned>(slot));
    if (around_.by_us || !queue.slots[slot].holders.empty()) beside_.push_back(*unit_of_[slot]);
  }
  std::sort(beside_.begin(), beside_.end());
  chosen_ = placement->units;
  explain_ = placement->explain;
  return slots;
}

}  // namespace thole::app
