// Plays random arrivals, releases, departures and the passing of time against the rule, waking waiters only as the
// decisions say, never by a time-out, and holds the rule to what it claims. The long form: RC_PARAMS=max_success=20000.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "model/request.hpp"
#include "support/dice.hpp"
#include "support/queues.hpp"

namespace thole::test {
namespace {

struct Event {
  enum Kind { arrive, release, leave, pass_time } kind;
  std::uint32_t seed;                          // everything else about it is drawn from this
};

struct Habits {
  bool declare = true;                         // some requests have a time
  bool share = true;                           // some are sharers, of two users
  bool leave = false;                          // some leave slots to others
  bool beside = false;                         // some take slots beside use without a claim
  bool own_look = false;                       // on such slots whoever decides sees more than others, now so and now so
};

class Play {
 public:
  Play(unsigned slots, std::uint32_t seed, Habits habits) : habits_(habits), dice_(seed) {
    for (unsigned s = 0; s < slots; ++s) {
      queue_.slots.push_back({fmt::format("GPU-{}", s), {}});
      const bool usable = dice_.roll(8) != 0;
      states_.push_back({usable, 40960, 0, !usable && dice_.roll(3) == 0});
      if (!habits_.beside || dice_.roll(3) == 0) continue;
      states_.back() = {.usable = false, .memory_mib = 40960, .kept_by_use = true, .load_percent = 0, .memory_percent = 0};
      if (dice_.roll(2) == 0) states_.back().used_by = 1 + dice_.roll(2);
      else states_.back().used_by_unseen = dice_.roll(3) == 0;
    }
    holders_.resize(slots);
  }

  void run(const std::vector<Event>& events) {
    for (const Event& event : events) {
      dice_ = Dice(event.seed);
      const auto before = promises();
      switch (event.kind) {
        case Event::arrive: arrive(); break;
        case Event::release: release_one(); break;
        case Event::leave: leave_one(); break;
        case Event::pass_time: pass_time(); break;
      }
      settle();
      if (!habits_.own_look) nobody_sleeps_through_his_chance();
      no_promise_moved(before);
    }
  }

  unsigned out_of_turn = 0, kept = 0, both_fit = 0;          // that the play was worth something

 private:
  struct Sleeper {
    std::set<std::uint64_t> tickets, holders;  // whose end wakes it
  };
  struct Running {
    std::vector<unsigned> slots;
    WallTime end;                              // when it will really end
    bool ends = false;
  };

  std::map<std::uint64_t, WallTime> promises() const {
    std::map<std::uint64_t, WallTime> result;
    const auto all = plan::promises(queue_, states_, now_);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i]) result[queue_.tickets[i].number] = *all[i];
    return result;
  }

  void arrive() {
    model::TicketView ticket;
    ticket.number = next_++;
    ticket.uid = 1 + dice_.roll(2);
    const std::uint32_t narrow = 1 + dice_.roll(4);  // from nearly all slots to nearly none
    for (std::size_t s = 0; s < queue_.slots.size(); ++s) ticket.eligible[s] = dice_.roll(5) >= narrow;
    if (ticket.eligible.none()) ticket.eligible.set(dice_.roll(static_cast<std::uint32_t>(queue_.slots.size())));
    ticket.count = 1 + dice_.roll(static_cast<std::uint32_t>(ticket.eligible.count()));
    if (habits_.share && dice_.roll(3) == 0) {
      ticket.shared = true;
      ticket.share_with_any = dice_.roll(2) == 0;
      ticket.memory_mib = 3000 + 4000 * dice_.roll(6);
      ticket.count = 1 + dice_.roll(2) * (ticket.eligible.count() > 1);
    }
    if (habits_.declare && dice_.roll(4) != 0) ticket.time = Seconds{1 + dice_.roll(40)};
    ticket.trust_claims = dice_.roll(10) == 0;
    if (habits_.beside && !ticket.trust_claims) ticket.beside = static_cast<model::Beside>(dice_.roll(3));
    if (habits_.leave && dice_.roll(3) == 0)   // more than there are is refused
      ticket.leave = dice_.roll(static_cast<std::uint32_t>(ticket.eligible.count() - ticket.count) + 1);
    ticket.since = now_;
    // The first look has no ticket yet.
    step(ticket, false);
  }

  void release_one() {
    if (running_.empty()) return;
    auto it = running_.begin();
    std::advance(it, dice_.roll(static_cast<std::uint32_t>(running_.size())));
    end(it->first);
  }

  void leave_one() {
    if (queue_.tickets.empty()) return;
    const std::uint64_t number = queue_.tickets[dice_.roll(static_cast<std::uint32_t>(queue_.tickets.size()))].number;
    promised_.erase(number);
    remove_ticket(number);
  }

  void pass_time() {
    const WallTime until = now_ + Seconds{1 + dice_.roll(30)};
    for (;;) {
      std::optional<WallTime> next;
      std::uint64_t who = 0;
      for (const auto& [number, running] : running_)
        if (running.ends && running.end <= until && (!next || running.end < *next)) next = running.end, who = number;
      if (!next) break;
      now_ = *next;
      end(who);
      settle();
    }
    now_ = until;
  }

  void end(std::uint64_t number) {
    const Running running = running_.at(number);
    running_.erase(number);
    for (const unsigned s : running.slots) {
      auto& ids = holders_[s];
      const auto at = std::find(ids.begin(), ids.end(), number) - ids.begin();
      ids.erase(ids.begin() + at);
      queue_.slots[s].holders.erase(queue_.slots[s].holders.begin() + at);
    }
    for (const auto& [waiter, sleeper] : sleepers_)
      if (sleeper.holders.count(number)) woken_.insert(waiter);
  }

  void remove_ticket(std::uint64_t number) {
    std::erase_if(queue_.tickets, [&](const auto& ticket) { return ticket.number == number; });
    sleepers_.erase(number);
    woken_.erase(number);
    for (const auto& [waiter, sleeper] : sleepers_)
      if (sleeper.tickets.count(number)) woken_.insert(waiter);
  }

  void settle() {
    for (unsigned steps = 0; !woken_.empty(); ++steps) {
      RC_ASSERT(steps < 10'000u);              // they would wake each other for ever
      auto it = woken_.begin();
      std::advance(it, dice_.roll(static_cast<std::uint32_t>(woken_.size())));
      const std::uint64_t number = *it;
      woken_.erase(it);
      const auto ticket = std::find_if(queue_.tickets.begin(), queue_.tickets.end(),
                                       [&](const auto& waiting) { return waiting.number == number; });
      if (ticket != queue_.tickets.end()) step(model::TicketView(*ticket), true);
    }
  }

  model::Decision decide(const model::TicketView& ticket, bool queued) {
    const plan::Chooser any = [&](const model::SlotSet& free) -> std::optional<std::vector<unsigned>> {
      std::vector<unsigned> slots;
      for (unsigned s = 0; s < free.size(); ++s)
        if (free[s]) slots.push_back(s);
      while (slots.size() > ticket.count) slots.erase(slots.begin() + dice_.roll(static_cast<std::uint32_t>(slots.size())));
      return slots.size() == ticket.count ? std::optional(slots) : std::nullopt;
    };
    return plan::decide(queue_, queued ? std::optional(ticket.number) : std::nullopt, ticket, seen_by(ticket), any, now_);
  }

  // Whoever takes slots beside use without a claim looks himself whether that is little enough.
  std::vector<plan::SlotState> seen_by(const model::TicketView& ticket) {
    std::vector<plan::SlotState> seen = states_;
    if (!habits_.own_look) return seen;
    for (plan::SlotState& state : seen)
      state.usable_to_me = would_do(ticket, state, false) ||
                           (would_do(ticket, state, true) && (!has_enough(ticket) || dice_.roll(2) == 0));
    return seen;
  }

  void step(const model::TicketView& ticket, bool queued) {
    const model::Decision decision = decide(ticket, queued);
    if (const auto* take = std::get_if<model::Take>(&decision)) return start(ticket, *take, queued);
    RC_ASSERT(!std::holds_alternative<model::Refuse>(decision));
    const auto& wait = std::get<model::Wait>(decision);
    if (!queued) queue_.tickets.push_back(ticket);
    if (wait.promise) promised_.try_emplace(ticket.number, *wait.promise);
    Sleeper& sleeper = sleepers_[ticket.number] = {};
    if (wait.behind) sleeper.tickets.insert(*wait.behind);
    sleeper.tickets.insert(wait.follow.begin(), wait.follow.end());
    for (std::size_t s = 0; s < queue_.slots.size(); ++s)
      if (wait.watch[s]) sleeper.holders.insert(holders_[s].begin(), holders_[s].end());
    woken_.insert(wait.nudge.begin(), wait.nudge.end());
  }

  void start(const model::TicketView& ticket, const model::Take& take, bool queued) {
    is_admitted(ticket, take.slots);
    std::vector<std::uint64_t> first;
    if (is_its_turn(ticket) && !habits_.leave && !habits_.own_look) first = who_declared_less(ticket);
    if (const auto promised = promised_.find(ticket.number); promised != promised_.end()) {
      RC_ASSERT(now_ <= promised->second);
      ++kept;
    }
    if (queued) remove_ticket(ticket.number);
    Running running{take.slots, {}, false};
    const model::SlotHolder holder = holder_of(ticket);
    if (ticket.time) {
      running.ends = true;
      const auto declared = static_cast<std::uint32_t>(ticket.time->count());
      running.end = now_ + Seconds{dice_.roll(3) ? declared : dice_.roll(declared)};
    }
    for (const unsigned s : take.slots) {
      queue_.slots[s].holders.push_back(holder);
      holders_[s].push_back(ticket.number);
    }
    running_[ticket.number] = running;
    woken_.insert(take.nudge.begin(), take.nudge.end());
    may_start_one_after_the_other(first);
    both_fit += static_cast<unsigned>(first.size());
  }

  // Those who want the same GPUs, may start at this moment too, and declared less, or the same and came first: whoever passes
  // takes nothing from them. (Where somebody leaves slots to others, his moment may come between.)
  std::vector<std::uint64_t> who_declared_less(const model::TicketView& ticket) {
    std::vector<std::uint64_t> result;
    const auto key = [](const model::TicketView& one) { return std::pair(*one.time, one.number); };
    for (const model::TicketView& other : std::vector(queue_.tickets))
      if (other.time && other.leave == 0 && (other.eligible & ticket.eligible).any() && key(other) < key(ticket) &&
          may_start(other.number))
        result.push_back(other.number);
    std::sort(result.begin(), result.end(),
              [&](std::uint64_t a, std::uint64_t b) { return key(ticket_of(a)) < key(ticket_of(b)); });
    return result;
  }

  // Each alone, or after those who go before it, on the lowest slots: a sharer may need that one shares its GPU with it first.
  void may_start_one_after_the_other(const std::vector<std::uint64_t>& numbers) {
    model::QueueView then = queue_;
    then.yields = false;
    for (const std::uint64_t number : numbers) {
      const model::TicketView ticket = ticket_of(number);
      const model::Decision decision = plan::decide(then, number, ticket, states_, lowest(ticket.count), now_);
      const auto* take = std::get_if<model::Take>(&decision);
      if (!take && !may_start(number)) show(number);
      RC_ASSERT(take || may_start(number));
      if (!take) continue;
      for (const unsigned s : take->slots) then.slots[s].holders.push_back(holder_of(ticket));
      std::erase_if(then.tickets, [&](const auto& other) { return other.number == number; });
    }
  }

  const model::TicketView& ticket_of(std::uint64_t number) const {
    return *std::find_if(queue_.tickets.begin(), queue_.tickets.end(), [&](const auto& t) { return t.number == number; });
  }

  bool may_start(std::uint64_t number) {
    queue_.yields = false;
    const bool may = std::holds_alternative<model::Take>(decide(model::TicketView(ticket_of(number)), true));
    queue_.yields = true;
    return may;
  }

  model::SlotHolder holder_of(const model::TicketView& ticket) const {
    model::SlotHolder holder{ticket.uid, ticket.shared, ticket.share_with_any, {}, {}};
    if (ticket.shared) holder.memory_mib = ticket.memory_mib;
    if (ticket.time) holder.until = now_ + *ticket.time;
    return holder;
  }

  // For whoever reads a failure: the GPUs and the line, times from now.
  void show(std::uint64_t who) const {
    const auto seconds = [&](WallTime when) { return std::chrono::floor<Seconds>(when - now_).count(); };
    RC_LOG() << "of ticket " << who << '\n';
    for (std::size_t s = 0; s < queue_.slots.size(); ++s) {
      RC_LOG() << "slot " << s << (states_[s].usable ? "" : states_[s].sick ? " sick" : " in use");
      if (states_[s].kept_by_use) RC_LOG() << " by " << states_[s].used_by.value_or(0);
      for (const model::SlotHolder& holder : queue_.slots[s].holders)
        RC_LOG() << "; uid " << holder.uid << (holder.shared ? " shares" : "") << (holder.share_with_any ? " with any " : " ")
                 << holder.memory_mib.value_or(0) << " MiB until " << (holder.until ? seconds(*holder.until) : -1);
      RC_LOG() << '\n';
    }
    for (const model::TicketView& ticket : queue_.tickets) {
      RC_LOG() << "ticket " << ticket.number << " uid " << ticket.uid << " wants " << ticket.count << " of ";
      for (std::size_t s = 0; s < queue_.slots.size(); ++s) RC_LOG() << (ticket.eligible[s] ? '1' : '0');
      RC_LOG() << (ticket.shared ? " shares" : "") << (ticket.share_with_any ? " with any " : " ") << ticket.memory_mib
               << " MiB" << (ticket.trust_claims ? " trusts claims" : "") << " beside "
               << model::to_string(ticket.beside) << " leaves " << ticket.leave << " for "
               << (ticket.time ? ticket.time->count() : -1) << '\n';
    }
  }

  static bool would_do(const model::TicketView& ticket, const plan::SlotState& state, bool beside_use) {
    if (state.usable || (ticket.trust_claims && !state.sick)) return true;
    if (!beside_use || !state.kept_by_use) return false;
    const bool may_be_his = state.used_by == ticket.uid || state.used_by_unseen;
    return ticket.beside == model::Beside::any || (ticket.beside == model::Beside::mine && may_be_his);
  }

  // One that has enough without them is not reckoned to take those beside use.
  bool usable(const model::TicketView& ticket, std::size_t s) const {
    return would_do(ticket, states_[s], habits_.own_look || !has_enough(ticket));
  }
  bool has_enough(const model::TicketView& ticket) const {
    unsigned without = 0;
    for (std::size_t s = 0; s < states_.size(); ++s) without += ticket.eligible[s] && would_do(ticket, states_[s], false);
    return without >= ticket.count;
  }

  // All or nothing, on slots of its own that really are free for it. Written without the rule's own functions.
  void is_admitted(const model::TicketView& ticket, const std::vector<unsigned>& slots) {
    RC_ASSERT(slots.size() == ticket.count);
    RC_ASSERT(std::set<unsigned>(slots.begin(), slots.end()).size() == slots.size());
    for (const unsigned s : slots) {
      RC_ASSERT(ticket.eligible[s] && usable(ticket, s));
      std::uint64_t used = ticket.memory_mib + 512;
      bool all_any = ticket.share_with_any, one_user = true;
      for (const model::SlotHolder& holder : queue_.slots[s].holders) {
        RC_ASSERT(ticket.shared && holder.shared);
        used += *holder.memory_mib + 512;
        one_user = one_user && holder.uid == ticket.uid;
        all_any = all_any && holder.share_with_any;
      }
      RC_ASSERT(!ticket.shared || (used <= 40960 && (one_user || all_any)));
    }
    unsigned unclaimed = 0, taken = 0;
    for (unsigned s = 0; s < queue_.slots.size(); ++s)
      unclaimed += ticket.eligible[s] && usable(ticket, s) && queue_.slots[s].holders.empty();
    for (const unsigned s : slots) taken += queue_.slots[s].holders.empty();
    RC_ASSERT(taken == 0u || unclaimed >= taken + ticket.leave);
  }

  // Without a declared time nobody passes an earlier one that overlaps, unless strangers alone keep that one. Does this one?
  bool is_its_turn(const model::TicketView& ticket) {
    model::SlotSet waited_for;                 // by those who hold up whoever is behind them
    for (const model::TicketView& other : queue_.tickets) {
      if (other.number == ticket.number) break;
      unsigned possible = 0;
      for (std::size_t s = 0; s < queue_.slots.size(); ++s)
        possible += other.eligible[s] && usable(other, s);
      if (possible < other.count || (other.leave > 0 && ((other.eligible & waited_for).any() || leaves_too_few(other))))
        continue;
      waited_for |= other.eligible;
    }
    const bool passes = (waited_for & ticket.eligible).any();
    RC_ASSERT(!passes || ticket.time.has_value());
    out_of_turn += passes;
    return passes;
  }

  // It leaves slots to others, and too few are free for that.
  bool leaves_too_few(const model::TicketView& ticket) const {
    unsigned open = 0;
    for (std::size_t s = 0; s < queue_.slots.size(); ++s)
      open += ticket.eligible[s] && usable(ticket, s) && queue_.slots[s].holders.empty();
    return open < ticket.count + ticket.leave;
  }

  void nobody_sleeps_through_his_chance() {
    for (const model::TicketView& ticket : std::vector(queue_.tickets)) {
      const bool could = std::holds_alternative<model::Take>(decide(ticket, true));
      RC_ASSERT(!could);
      const auto promised = promised_.find(ticket.number);
      if (promised != promised_.end()) RC_ASSERT(now_ <= promised->second);
    }
  }

  // Whatever happened: arrivals behind, backfill, early ends, departures, time.
  void no_promise_moved(const std::map<std::uint64_t, WallTime>& before) {
    const auto after = promises();
    for (const model::TicketView& ticket : queue_.tickets)
      if (const auto was = before.find(ticket.number); was != before.end()) {
        RC_ASSERT(after.count(ticket.number) == 1u);
        RC_ASSERT(after.at(ticket.number) <= std::max(was->second, now_));
      }
  }

  Habits habits_;
  Dice dice_;
  WallTime now_ = noon;
  std::uint64_t next_ = 1;
  model::QueueView queue_;
  std::vector<plan::SlotState> states_;
  std::vector<std::vector<std::uint64_t>> holders_;   // by slot, parallel to the view's
  std::map<std::uint64_t, Running> running_;
  std::map<std::uint64_t, Sleeper> sleepers_;
  std::map<std::uint64_t, WallTime> promised_;        // the first promise made to each
  std::set<std::uint64_t> woken_;
};

std::vector<Event> any_events() {
  const auto kind = rc::gen::weightedElement<Event::Kind>(
      {{6, Event::arrive}, {4, Event::release}, {1, Event::leave}, {3, Event::pass_time}});
  const auto event = rc::gen::apply([](Event::Kind k, std::uint32_t seed) { return Event{k, seed}; }, kind,
                                    rc::gen::arbitrary<std::uint32_t>());
  return *rc::gen::scale(2.0, rc::gen::container<std::vector<Event>>(event));
}

void play(Habits habits, const char* label) {
  Play game(*rc::gen::inRange(1u, 7u), *rc::gen::arbitrary<std::uint32_t>(), habits);
  game.run(any_events());
  RC_TAG(std::string(label) + (game.out_of_turn ? ", some out of turn" : "") + (game.both_fit ? ", beside others" : ""));
}

RC_GTEST_PROP(TurnProperty, NobodySleepsForEverAndNoPromiseIsBroken, ()) { play({.declare = true, .share = true}, "all"); }
RC_GTEST_PROP(TurnProperty, ExclusiveClaimsWithDeclaredTimes, ()) { play({.declare = true, .share = false}, "exclusive"); }

RC_GTEST_PROP(TurnProperty, WhoLeavesSomeToOthersGivesWayAndMovesNoPromise, ()) {
  play({.declare = true, .share = false, .leave = true}, "leaving");
}
RC_GTEST_PROP(TurnProperty, SharersThatLeaveSomeToOthers, ()) {
  play({.declare = true, .share = true, .leave = true}, "sharing and leaving");
}

RC_GTEST_PROP(TurnProperty, SomeTakeSlotsBesideUseWithoutAClaim, ()) {
  play({.declare = true, .share = true, .leave = true, .beside = true}, "beside");
}
RC_GTEST_PROP(TurnProperty, WhatOnesOwnLookShowsMovesNobodysPromise, ()) {
  play({.declare = true, .share = true, .beside = true, .own_look = true}, "by its own look");
}

// First come, first served where nothing is declared: out_of_turn counts what passed an earlier overlapping ticket.
RC_GTEST_PROP(TurnProperty, NothingDeclaredIsPlainOrder, ()) {
  Play game(*rc::gen::inRange(1u, 7u), *rc::gen::arbitrary<std::uint32_t>(), {.declare = false, .share = true});
  game.run(any_events());
  RC_ASSERT(game.out_of_turn == 0u);
}

}  // namespace
}  // namespace thole::test

