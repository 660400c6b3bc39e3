// How long waiters that could start and do not may hold up one that stands behind them, or lets them go first. Pure.
//
// How this works. A waiter may be frozen in ways that nobody else can see, and a ticket can be forged: all that is known of
// either is that it could start and does not. So each has a time, on the clock of the one it holds up, in sum over all
// moments in which it could start: 3 s, longer than the 2 s after which every honest waiter looks again by itself. Then it
// is passed for good (it keeps its ticket before all others). All run at once, so that any number of them costs one grace.
// Who stands behind such ones may be honest and be waiting for the same grace to end: he has twice the time.
//
// Time counts between two of my looks that both saw him able to start, unless the first of those before him has left: then the
// line moves. If that one is back later it has not moved, and the time counts after all. Looks come sooner than usual then,
// and at odd times: who claims for moments cannot know them before (who sees them, and claims then, has to hold the units most
// of the time). Only those count for which my own clock has
// woken me: when others do, they know what I shall see. *Earlier than me* is who was in line when I joined; a number that
// appears below mine later has been forged, or is that of one who gave his claim back: he does not go before me.
//
// Whom I yield to, because he may pass too and declared less, may have come later than I, and new ones may come without end:
// one account is kept for them all, and what is spent of it never comes back. At each look of mine by the clock that finds
// somebody to yield to, the time until the next one is spent, whatever that one sees. After 3 s, or 6 s where there were two at
// once (the one may wait for the other's grace), I yield to nobody any more: as if nobody had declared less.
//
// A line that moves in earnest does not do so for long while each of my looks finds somebody who could start: after a minute
// of that whoever could is passed. It is forgotten four times more slowly than it adds up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "model/queue_view.hpp"

namespace thole::plan {

class Grace {
 public:
  static constexpr Millis patience{3000};          // with one who could start
  static constexpr Millis patience_behind{6000};   // ... once he stood behind another such one
  static constexpr Millis soonest{300}, latest{700};   // my looks while somebody is being timed
  static constexpr unsigned looks_after = 40;          // ... and how many more when he cannot start just now
  static constexpr Millis longest_interval{1000};  // a longer one says that I slept or was stopped, not that he did
  static constexpr Millis patience_with_all{60'000};   // with a line that moves, and leaves free what I want

  // Asks the rule, showing it those before me who have time left; again, when somebody's time is over by this look. A Wait is
  // told whom to nudge and when to look again.
  using Rule = std::function<model::Decision(const model::QueueView&)>;
  model::Decision decide(const model::QueueView& queue, std::optional<std::uint64_t> mine, SteadyTime now, const Rule& rule);

 private:
  void see(const model::QueueView& queue, std::optional<std::uint64_t> mine);
  bool differs(const model::QueueView& queue, std::optional<std::uint64_t> mine) const;
  void mark(model::QueueView& queue, std::optional<std::uint64_t> mine) const;
  bool count(model::Wait& wait, bool by_clock, SteadyTime now);
  bool count_time(const model::Wait& wait, Millis interval);
  bool count_yields(const model::Wait& wait, Millis interval);
  void call(model::Wait& wait);
  using Who = model::InLine;
  struct Account {
    Millis spent{0};
    std::uint64_t look = 0;      // the last one that saw it able to start
    Who first{};
    bool behind = false;
  };
  bool goes_before_me(const model::TicketView& ticket) const;
  void add_up(Millis interval, bool any_idle);
  Millis of_those_who_are_back();

  std::optional<std::uint64_t> number_;            // mine, once I have had one
  bool begun_ = false;
  std::set<Who> in_line_;                          // when I joined
  std::set<Who> there_;                            // at this look, before me
  std::map<Who, Millis> left_;                     // what did not count as they had
  std::set<Who> passed_;
  std::map<Who, Account> accounts_;
  std::set<Who> called_;                           // have been nudged
  Millis yielded_{0};                              // to whoever declared less
  bool yields_ = true, yielded_last_ = false;      // any more; at the last look
  bool to_several_ = false;                        // at once
  Millis held_up_{0};                              // by any who could start
  bool was_held_up_ = false;                       // at the last look
  std::uint64_t looks_ = 1;
  unsigned attentive_ = 0;                         // so many more looks come soon
  std::optional<SteadyTime> last_;
};

}  // namespace thole::plan
