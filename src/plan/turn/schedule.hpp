// The starts that can be promised to those who wait, and what may be held meanwhile without moving one of them.
// Internal to the rule (turn.cpp).
//
// How this works. A promise is a latest start: it holds whichever slots the earlier waiters will choose, and however
// much earlier than declared anybody ends. So nothing is laid out on particular slots. For each kind of waiter (same
// slots, same way of using them) we count openings: what the holders' declared ends will have set free by a time, less the
// most that the earlier waiters may then occupy, each from now to the end of its own promise plus its declared time. A
// waiter's promise is the first moment at which its openings suffice and every earlier waiter that must go first has been
// promised a start. Both only improve when somebody ends early, leaves or starts, which is why a promise once made is kept.
//
// A later claim moves no promise if, for every promised waiter whose start lies before the claim's end, the openings that claim
// takes fit into the room left beside that waiter's own. So the test is a few subtractions, and never a second schedule.
// A waiter without a promise keeps its slots from claims that end later than it is held up anyway: until the last promise
// among those before it, or not at all if it is first. So whoever passes it delays it by a bounded time, however many do.
//
// Cost: O(waiters x kinds); there are few kinds in practice, and those beyond `most_kinds` are promised nothing.
#pragma once

#include <optional>
#include <vector>

#include "plan/turn/line.hpp"

namespace thole::plan {

// No declared time counts for more than this: times come from records that others write.
inline constexpr Seconds longest_time{366LL * 24 * 3600};

class Schedule {
 public:
  static constexpr std::size_t most_kinds = 128;

  // Promises for the first `count` waiters of the line.
  Schedule(const Line& line, std::size_t count, std::size_t slots, WallTime now);

  std::optional<WallTime> start(std::size_t waiter) const { return starts_[waiter]; }

  // Of a waiter without a promise: how long it is held up anyway; what is held longer on its slots holds it up. Nothing where
  // it has a promise, or nobody waits for it.
  std::optional<WallTime> held_up_until(std::size_t waiter) const { return held_up_[waiter]; }

  // Of the slots `free`, those that this waiter may hold, all at once, until `end` without moving the promise of anybody
  // earlier. A largest such set in simple cases; never one too large.
  model::SlotSet harmless(std::size_t waiter, const model::SlotSet& free, WallTime end) const;

  // The largest length for which enough of `free` are harmless; nothing when there is none.
  std::optional<Seconds> longest_harmless(std::size_t waiter, const model::SlotSet& free) const;

  WallTime end_of(WallTime start, Seconds time) const;

 private:
  struct Gain { WallTime when; long openings; };
  struct Promise {
    std::size_t waiter;
    WallTime start;
    long room;                                 // the least left beside any waiter of the kind up to this one
  };
  struct Kind {
    Wants wants;
    model::SlotSet possible;
    long most = 0;                             // openings on an empty slot, at most
    long openings = 0;                         // at `settled`
    WallTime settled;                          // nobody of this kind can be promised an earlier start
    std::vector<Gain> gains;                   // a heap, the earliest on top
    std::vector<Promise> promises;             // in order of the line, and so of start
  };
  // To waiters behind `from`, for claims that end after `until`.
  struct Forbidden { std::size_t from; model::SlotSet slots; WallTime until; };

  std::optional<std::size_t> kind_of(const Waiter& waiter);
  void count_holders(Kind& kind) const;
  void promise(std::size_t waiter, Kind& kind);
  void give_way(const Waiter& who);
  void give_up(std::size_t waiter, WallTime held_up_until);
  static bool earliest(Kind& kind, long need);
  static long cost_of_a_slot(const Wants& taker, const Kind& kind);
  static void add_gain(Kind& kind, WallTime when, long openings);

  const Line& line_;
  std::size_t slots_;
  WallTime now_;
  std::vector<Kind> kinds_;
  std::vector<std::optional<WallTime>> starts_, held_up_;
  model::SlotSet hopeless_;                    // wanted by waiters without a promise: nobody behind them gets one
  std::vector<Forbidden> forbidden_;           // what waiters without a promise could use
};

}  // namespace thole::plan
