#include "plan/turn/line.hpp"

#include <algorithm>
#include <limits>

namespace thole::plan {

using model::SlotSet;

namespace {

// What a sharer takes of the memory; any number may have been forged.
std::uint64_t cost(std::uint64_t memory_mib) {
  return memory_mib + std::min<std::uint64_t>(share_context_mib, std::numeric_limits<std::uint64_t>::max() - memory_mib);
}

}  // namespace

bool compatible(const Wants& wants, std::uint32_t uid, bool with_any) {
  return uid == wants.uid || (with_any && wants.share_with_any);
}

unsigned openings_for(const Wants& wants, std::span<const model::SlotHolder> holders, const SlotState& state) {
  if (!wants.shared) return holders.empty() ? 1 : 0;
  if (state.memory_mib == 0 || holders.size() >= model::share_berths) return 0;
  bool all_mine = true, all_any = wants.share_with_any;
  // Subtract step by step: a forged record may hold any number, and a sum of them would wrap round.
  std::uint64_t left = state.memory_mib - std::min(state.memory_mib, state.unclaimed_mib);
  for (const model::SlotHolder& holder : holders) {
    if (!holder.shared || !holder.memory_mib || cost(*holder.memory_mib) > left) return 0;
    left -= cost(*holder.memory_mib);
    all_mine = all_mine && holder.uid == wants.uid;
    all_any = all_any && holder.share_with_any;
  }
  if (!all_mine && !all_any) return 0;
  const std::uint64_t fit = left / cost(wants.memory_mib);
  return static_cast<unsigned>(std::min<std::uint64_t>(fit, model::share_berths - holders.size()));
}

Line::Line(const model::QueueView& queue, const std::vector<SlotState>& states, std::optional<std::uint64_t> mine,
           const Wants* wants)
    : queue_(queue), states_(states) {
  for (std::size_t s = 0; s < queue.slots.size() && s < model::max_slots; ++s) {
    const model::SlotView& slot = queue.slots[s];
    named_[s] = !slot.key.empty();
    usable_[s] = s < states.size() && states[s].usable;
    sick_[s] = s < states.size() && states[s].sick;
    one_process_[s] = s < states.size() && states[s].one_process;
    kept_by_use_[s] = s < states.size() && states[s].kept_by_use;
    if (s < states.size() && states[s].usable_to_me) {
      if (!usable_to_me_) usable_to_me_.emplace();
      usable_to_me_->set(s, *states[s].usable_to_me);
    }
    claimed_[s] = !slot.holders.empty();
    exclusive_[s] = std::any_of(slot.holders.begin(), slot.holders.end(), [](const auto& h) { return !h.shared; });
  }
  waiters_.reserve(queue.tickets.size() + 1);
  mine_ = static_cast<std::size_t>(-1);
  SlotSet wanted_before;
  const auto add = [&](std::uint64_t number, const Wants& wanted, bool stopped, bool is_mine = false) {
    Waiter& one = waiters_.emplace_back(waiter(number, wanted, stopped, is_mine));
    const bool never = stopped || one.at_best.count() < wanted.count;
    one.gives_way = !never && wanted.leave > 0;
    one.passed_over = never || (one.gives_way && ((wanted.eligible & wanted_before).any() ||
                                                  open_to(one).count() < wanted.count));
    if (!one.passed_over) wanted_before |= wanted.eligible;
  };
  for (const model::TicketView& ticket : queue.tickets) {
    if (wants && mine == ticket.number) {
      mine_ = waiters_.size();
      add(ticket.number, *wants, false, true);
    } else {
      add(ticket.number, ticket, ticket.stopped);
    }
  }
  if (wants && mine_ == static_cast<std::size_t>(-1)) {
    mine_ = waiters_.size();
    add(mine.value_or(0), *wants, false, true);
  }
  if (!wants) mine_ = waiters_.size();
}

std::optional<std::size_t> Line::find(std::uint64_t number) const {
  for (std::size_t i = 0; i < waiters_.size(); ++i)
    if (waiters_[i].number == number) return i;
  return std::nullopt;
}

SlotState Line::state_for(const Wants& wants, unsigned s) const {
  SlotState counted = state(s);
  if (wants.trust_claims || exclusive_[s]) counted.unclaimed_mib = 0;   // who has it alone may have all that is seen there
  return counted;
}

Waiter Line::waiter(std::uint64_t number, const Wants& wants, bool stopped, bool is_mine) const {
  Waiter one{.number = number, .wants = wants, .stopped = stopped, .possible = that_would_do(wants, false), .at_best = {},
             .usable = {}};
  one.at_best = one.possible;
  if (wants.beside != model::Beside::none) one.at_best |= that_would_do(wants, true);
  if (one.possible.count() < wants.count) one.possible = one.at_best;
  one.usable = is_mine && usable_to_me_ ? *usable_to_me_ & wants.eligible & named_ : one.possible;
  return one;
}

// If every claim were released. `beside_use`: only what foreign use keeps from others, and not from this one if it likes.
SlotSet Line::that_would_do(const Wants& wants, bool beside_use) const {
  SlotSet set = wants.eligible & named_ & ~sick_;
  if (wants.shared) set &= ~one_process_;
  if (beside_use) set &= kept_by_use_;
  else if (!wants.trust_claims) set &= usable_;
  if (!wants.shared && wants.memory_mib == 0 && !beside_use) return set;
  for_each(set, queue_.slots.size(),
           [&](unsigned s) { set[s] = has_memory(wants, s) && (!beside_use || takes_beside_use(wants, s)); });
  return set;
}

bool Line::takes_beside_use(const Wants& wants, unsigned s) const {
  const SlotState seen = state(s);
  const bool may_be_mine = seen.used_by == wants.uid || seen.used_by_unseen;   // then his own look tells him
  if (wants.beside == model::Beside::none || (wants.beside == model::Beside::mine && !may_be_mine)) return false;
  if (seen.one_process) return false;
  const auto at_most = [](std::optional<double> percent, unsigned most) {
    return most >= 1000 || (percent && *percent * 10 <= most);
  };
  return at_most(seen.load_percent, wants.max_load_permille) && at_most(seen.memory_percent, wants.max_memory_permille);
}

// What is in use on a claimed slot may be its owner's.
bool Line::has_memory(const Wants& wants, unsigned s) const {
  const SlotState seen = state_for(wants, s);
  if (wants.shared) return openings_for(wants, {}, seen) > 0;
  if (wants.trust_claims || claimed_[s] || seen.memory_mib == 0) return true;
  return seen.memory_mib - std::min(seen.memory_mib, seen.unclaimed_mib) >= wants.memory_mib;
}

SlotSet Line::open_to(const Waiter& waiter) const { return open(waiter.wants, waiter.usable); }

SlotSet Line::open(const Wants& wants, SlotSet set) const {
  if (!wants.shared) return without_left(wants, set & ~claimed_);
  for_each(set, queue_.slots.size(),
           [&](unsigned s) { set[s] = openings_for(wants, slot(s).holders, state_for(wants, s)) > 0; });
  return without_left(wants, set);
}

// --leave: unclaimed slots only while enough of them stay unclaimed.
SlotSet Line::without_left(const Wants& wants, SlotSet open) const {
  if (wants.leave == 0) return open;
  return (open & ~claimed_).count() < std::size_t{wants.count} + wants.leave ? open & claimed_ : open;
}

bool Line::can_start(std::size_t i) const { return open_to(waiters_[i]).count() >= waiters_[i].wants.count; }

bool Line::might_start(std::size_t i) const {
  return open(waiters_[i].wants, waiters_[i].at_best).count() >= waiters_[i].wants.count;
}

std::optional<std::size_t> Line::before(std::size_t i) const {
  for (std::size_t j = i; j-- > 0;)
    if (!waiters_[j].passed_over && (waiters_[j].wants.eligible & waiters_[i].wants.eligible).any()) return j;
  return std::nullopt;
}

std::vector<bool> Line::held_up() const {
  std::vector<bool> result(size());
  SlotSet wanted_before;
  for (std::size_t i = 0; i < size(); ++i) {
    result[i] = (waiters_[i].wants.eligible & wanted_before).any();
    if (!waiters_[i].passed_over) wanted_before |= waiters_[i].wants.eligible;
  }
  return result;
}

}  // namespace thole::plan
