// What the queue's rule sees and what it answers. Values only: the store (host) fills a QueueView under its mutex, hands it
// to a rule (plan::decide, bound by app), and carries out the Decision. So the rule never sees a lock, the store no policy.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace thole::model {

inline constexpr std::size_t max_slots = 128;       // units a state directory can name
inline constexpr unsigned share_berths = 16;        // a sharer of a unit has one of them locked: its berth
using SlotSet = std::bitset<max_slots>;             // a set of slot numbers (lines of the `devices` file)

// Somebody who holds (a share of) a slot, as recorded; the kernel has confirmed that the lock is taken.
struct SlotHolder {
  std::uint32_t uid = 0;                            // of the lock's taker where it can be seen, else the record's
  bool shared = false;
  bool share_with_any = false;
  std::optional<std::uint64_t> memory_mib;          // a sharer's budget; absent = unknown, so the GPU counts as full
  std::optional<WallTime> until;                    // declared and enforced end (counted_end); absent = never ends
};

// A declared end that is kept is one of INT, TERM and KILL: twice the usual patience, and as much again for a machine that has
// much to do.
inline constexpr Seconds takes_to_end{40};

// By when others may count on an end that was declared. Who is past it is being ended, and counts as ended now: as long as he
// has not gone, nobody passes those who wait for him. Who is still there after that may stay as long as he likes.
inline std::optional<WallTime> counted_end(std::optional<WallTime> declared, WallTime now) {
  if (!declared || now - *declared >= takes_to_end) return std::nullopt;
  return std::max(*declared, now);
}

struct SlotView {
  std::string key;                                  // "" for an unused slot
  std::vector<SlotHolder> holders;                  // empty: nobody has claimed it
};

enum class Beside { none, mine, any };              // unclaimed processes tolerated on a unit that is taken

// What a claim asks for, whichever units would do: one value from the request to the record on disk.
struct Terms {
  unsigned count = 1;                               // units wanted, all or nothing
  bool shared = false;
  bool share_with_any = false;
  bool trust_claims = false;                        // this waiter does not mind unclaimed use
  Beside beside = Beside::none;                     // or not that of these, up to so much:
  std::uint16_t max_load_permille = 500, max_memory_permille = 500;
  std::uint64_t memory_mib = 0;                     // shared: its budget; else what is to be free on each
  std::optional<Seconds> time;                      // declared length
  unsigned leave = 0;                               // units that would do and stay unclaimed when it starts: it gives way
};

// What a waiter wants of the slots.
struct Wants : Terms {
  SlotSet eligible;                                 // slots that would do
  std::uint32_t uid = 0;
};

struct TicketView : Wants {
  std::uint64_t number = 0;                         // order of arrival
  bool stopped = false;                             // not before me: it cannot, or has had its time (plan/turn/grace.hpp)
  WallTime since{};
};

using InLine = std::pair<std::uint64_t, std::uint32_t>;   // number and user

struct QueueView {
  std::vector<SlotView> slots;                      // by slot number
  std::vector<TicketView> tickets;                  // live ones, in order of arrival; holds my own once I have one
  bool ordered = true;                              // false: the queue cannot be had now, so it shows nobody
  bool by_clock = true;                             // my own clock has woken me for this look, and nobody else
  // Those without a ticket who say that they were in line when I joined: theirs has been written over.
  std::vector<InLine> also_in_line;
  bool yields = true;                               // false: I have waited long enough for those who declared less
  bool neighbours_choose = false;                   // safe-gpu's users, who take the first GPUs that are idle, keep their lock
};

// Claim these slots now, all of them or none.
struct Take {
  std::vector<unsigned> slots;
  std::vector<std::uint64_t> nudge;                 // who must look again, to watch what I now hold, or may now pass: wake them
  // Where I pass others by my declared time: who they are, and the latest end that puts none of them off as it is now.
  std::vector<InLine> passed = {};
  std::optional<WallTime> ends_by = {};
};

// An earlier waiter that could start at this moment and has not.
struct Idle {
  std::uint64_t number = 0;
  std::uint32_t uid = 0;                            // anybody can write a ticket of his with another's number
  std::uint64_t first = 0;                          // itself, or the first of those like it that it stands behind
  std::uint32_t uid_of_first = 0;
};

// Not now. What to watch, whom to wake, what can be promised.
struct Wait {
  // The ticket that must go first: of those I yield to the first one, else the nearest earlier one; absent: I am the head.
  std::optional<std::uint64_t> behind;
  std::vector<std::uint64_t> follow;                // further tickets whose leaving must wake me, as that of `behind` does
  SlotSet watch;                                    // claimed slots whose release (of any holder there now) must wake me
  SlotSet observe;                                  // unclaimed slots that only the driver's report keeps from me
  bool passed_over = false;                         // whoever comes later need not wait for me, as it is now
  bool passes_by_look = false;                      // nor I for one before me, by what was seen: to be seen again before I pass
  bool could_start_but_for_behind = false;          // enough is free for `behind`, and nobody is before it
  std::vector<Idle> idle;                           // of those before me for any slot, who could start now; in order
  std::vector<InLine> yields_to;                    // I may pass those before me; these may too, and declared less; in order
  std::optional<Millis> look_again;                 // by the clock, sooner than usual: others are being timed
  std::vector<std::uint64_t> nudge;                 // later tickets that may start now, the first of rivals: wake them
  std::optional<WallTime> promise;                  // the start that can be promised to me
  std::optional<Seconds> would_fit;                 // a declared --time of at most this would start me now
  unsigned position = 1;                            // in line among those that compete with me, from 1
};

// Never, or not before somebody mends something.
struct Refuse {
  bool usage = false;                               // true: exit 64 (impossible here); false: exit 69 (sick, unreadable)
  std::string why;
};

using Decision = std::variant<Take, Wait, Refuse>;

// `mine` is my ticket's number, absent while I have none (the first look). `wants` is what was entered: a Take is of slots
// among those that would do.
using Rule = std::function<Decision(const QueueView&, std::optional<std::uint64_t> mine, const Wants& wants, WallTime now)>;

}  // namespace thole::model
