// Who may pass those before it at this moment (backfill), and who of them goes first. Internal to the rule (turn.cpp).
//
// How this works. Of those who may pass, who declared least goes first; of those who declared the same, who came first. Who may
// pass starts if all who go before him, and want one of his slots, could start after him too, one after the other: then nothing
// is taken from them. Else he waits for the first of them, and wakes it. None of this touches whether anybody may pass: that no
// promise moves is the schedule's business. The order ends: the first of all waits for nobody. And whoever starts wakes those
// who may still pass then, in that order, so that a chain of such waits is gone through without anybody looking by the clock.
//
// A promise may lie later than one's turn (what sharers of several slots are promised is on the safe side), or count on a claim
// that is overdue. So nobody passes one whose turn it is, and who could start at this moment, if then he could not any more.
//
// Who leaves slots to others (--leave) holds up nobody, and so is waited for by nobody here either.
#pragma once

#include <optional>
#include <vector>

#include "plan/turn/schedule.hpp"

namespace thole::plan {

// What is decided on. The schedule is made when somebody must be promised something.
struct Moment {
  const model::QueueView& queue;
  const std::vector<SlotState>& states;
  const Line& line;
  WallTime now;
  std::optional<Schedule> schedule{};

  const Schedule& plan() {
    if (!schedule) schedule.emplace(line, line.size(), queue.slots.size(), now);
    return *schedule;
  }
};

using Slots = std::vector<unsigned>;
model::SlotSet set_of(const Slots& slots);

// Sharers pack: beside my own first, then beside others who allow it, then on an empty slot.
std::optional<Slots> pick(const Line& line, const Wants& wants, const model::SlotSet& free, const Chooser& choose);

// Those from `first` on that may pass, in the order in which they go.
std::vector<std::size_t> who_may_pass(Moment& moment, std::size_t first);

// Would the waiter `mine`, which may pass, by taking these slots keep one from starting whose turn it is, and who could now?
bool takes_a_turn(Moment& moment, const Slots& slots);

// Those whom the waiter `mine`, which may pass, lets start first rather than take these slots; in that order.
std::vector<std::size_t> yields_to(Moment& moment, const Slots& slots);

// Of those who may pass, the first that compete for a slot, and two more in case it sleeps longer than we can see.
std::vector<std::uint64_t> first_of(const Line& line, const std::vector<std::size_t>& waiters);

// Those who may pass when the waiter `mine` has claimed these slots: the first of them.
std::vector<std::uint64_t> may_pass_next(Moment& moment, const Slots& slots);

}  // namespace thole::plan
