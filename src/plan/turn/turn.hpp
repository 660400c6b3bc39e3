// Whose turn it is: the fairness rule of thole, pure. First come, first served per overlapping set of units; all or
// nothing; backfill by declared time that never moves a promised start.
//
// How this works. Tickets are taken in order of arrival. A ticket is blocked by an earlier live ticket whose eligible set
// overlaps its own, unless that one is passed over: it is stopped, or even with every claim released it could not start
// (foreign use or sickness holds it back), or it leaves slots to others and may not start now. An unblocked ticket starts
// when enough of its slots are free. Every other ticket may start only by backfill: it has a declared time, it fits on free
// slots, and with it running until then the schedule promises every earlier ticket a start no later than without it. In that
// schedule holders without a declared end never end and tickets without a declared time never end once started; a ticket
// that can be promised no start at all lets pass only what ends before it could be its turn: before the last promise made to
// those it stands behind; if it stands behind nobody, nothing may use its slots.
//
// Of those that may start by backfill, who declared least goes first (passing.hpp): the others wait for it, and wake it, unless
// there is room for both. That order decides who of them takes what is free, never whether a promise may move.
//
// A ticket that leaves N to others starts only while N of its eligible slots stay unclaimed beside those it takes. It is
// promised no start and keeps nobody waiting, but at the moment when it may start, it goes before those behind it; what they
// are promised allows for that.
//
// A promise is a latest start: it is kept if the holders and those before keep their declared ends, whatever they choose
// and however early they end. It is broken only by what no rule can foresee: strangers' use, sickness, a
// waiter that was passed over and comes back.
//
// Everybody judges the slots of all waiters alike, by what they ask for, never by what he asks for himself: only on what he may
// take now his own look decides (usable_to_me). What use without a claim keeps from others is reckoned to one that takes a GPU
// beside it (--beside), as its load is now, only where he has not enough without.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model/queue_view.hpp"

namespace thole::plan {

// What the observer knows of one slot beyond the claims.
struct SlotState {
  bool usable = false;                         // healthy and without foreign use: free if unclaimed
  std::uint64_t memory_mib = 0;                // total; 0 = unknown = full for sharers
  std::uint64_t unclaimed_mib = 0;             // used by nobody's claim
  bool sick = false;                           // usable for nobody, not even for who trusts claims
  bool one_process = false;                    // nor for sharers
  bool kept_by_use = false;                    // not usable by foreign use alone (--beside) ...
  std::optional<std::uint32_t> used_by = {};   // ... of this user, where it is one's ...
  bool used_by_unseen = false;                 // ... or of one who is not seen from here ...
  std::optional<double> load_percent = {}, memory_percent = {};   // ... and so much; absent = more than anybody takes
  std::optional<bool> usable_to_me = {};       // to the one it is decided for, unless claimed; absent = as for others
};

// What of a time will do when somebody has read it, and typed it.
constexpr Seconds typed_later(Seconds longest) {
  constexpr Seconds to_type_it{15};
  return longest > 2 * to_type_it ? longest - to_type_it : longest;
}

using model::Wants;

inline constexpr std::uint64_t share_context_mib = 512;   // charged to every sharer on top of its budget

// Chooses which of the slots that would do (all free for this ticket) to take; plan::place, bound by app.
using Chooser = std::function<std::optional<std::vector<unsigned>>(const model::SlotSet& free)>;

// The rule for one waiter. Complete: fills every field of Wait.
model::Decision decide(const model::QueueView& queue, std::optional<std::uint64_t> mine, const Wants& wants,
                       const std::vector<SlotState>& states, const Chooser& choose, WallTime now);

// The start that can be promised to each ticket (same order as queue.tickets); nothing where none can be.
std::vector<std::optional<WallTime>> promises(const model::QueueView& queue, const std::vector<SlotState>& states,
                                              WallTime now);

// What each ticket can count on: its start; or, where none can be promised, that whoever begins behind it on its slots ends by
// then. Neither for one that is passed over, or leaves slots to others.
struct Outlook {
  std::optional<WallTime> start, held_up_until;
};
std::vector<Outlook> outlooks(const model::QueueView& queue, const std::vector<SlotState>& states, WallTime now);

}  // namespace thole::plan
