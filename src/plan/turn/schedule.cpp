#include "plan/turn/schedule.hpp"

#include <algorithm>

namespace thole::plan {

using model::SlotSet;

Schedule::Schedule(const Line& line, std::size_t count, std::size_t slots, WallTime now)
    : line_(line), slots_(slots), now_(now), starts_(count), held_up_(count) {
  std::vector<std::optional<std::size_t>> kinds(count);
  for (std::size_t i = 0; i < count; ++i)
    if (!line[i].passed_over && !line[i].gives_way) kinds[i] = kind_of(line[i]);
  for (std::size_t i = 0; i < count; ++i) {
    if (line[i].gives_way) give_way(line[i]);
    if (line[i].passed_over || line[i].gives_way) continue;
    if (!kinds[i]) give_up(i, now_);
    else if ((line[i].wants.eligible & hopeless_).any()) give_up(i, kinds_[*kinds[i]].settled);
    else promise(i, kinds_[*kinds[i]]);
  }
}

WallTime Schedule::end_of(WallTime start, Seconds time) const {
  return start + std::clamp(time, Seconds{0}, longest_time);
}

std::optional<std::size_t> Schedule::kind_of(const Waiter& waiter) {
  const Wants& wants = waiter.wants;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const Wants& other = kinds_[k].wants;
    if (other.eligible != wants.eligible || kinds_[k].possible != waiter.possible || other.shared != wants.shared) continue;
    if (!wants.shared || (other.uid == wants.uid && other.share_with_any == wants.share_with_any &&
                          other.memory_mib == wants.memory_mib && other.trust_claims == wants.trust_claims))
      return k;
  }
  if (kinds_.size() == most_kinds) return std::nullopt;
  Kind& kind = kinds_.emplace_back();
  kind.wants = wants;
  kind.possible = waiter.possible;
  kind.settled = now_;
  count_holders(kind);
  return kinds_.size() - 1;
}

// The openings there are now, and when the holders' declared ends add to them.
void Schedule::count_holders(Kind& kind) const {
  std::vector<model::SlotHolder> left;
  for_each(kind.possible, slots_, [&](unsigned s) {
    const SlotState state = line_.state_for(kind.wants, s);
    kind.most = std::max(kind.most, static_cast<long>(openings_for(kind.wants, {}, state)));
    const std::vector<model::SlotHolder>& holders = line_.slot(s).holders;
    long openings = openings_for(kind.wants, holders, state);
    kind.openings += openings;
    if (holders.empty()) return;
    left = holders;
    std::sort(left.begin(), left.end(), [](const auto& a, const auto& b) {  // those who never end first
      return a.until.has_value() != b.until.has_value() ? !a.until : a.until > b.until;
    });
    while (!left.empty() && left.back().until) {
      const WallTime end = std::max(now_, *left.back().until);
      left.pop_back();
      const long more = openings_for(kind.wants, left, state);
      if (more > openings) add_gain(kind, end, more - openings);
      openings = std::max(openings, more);
    }
  });
}

void Schedule::add_gain(Kind& kind, WallTime when, long openings) {
  kind.gains.push_back({when, openings});
  std::push_heap(kind.gains.begin(), kind.gains.end(), [](const Gain& a, const Gain& b) { return a.when > b.when; });
}

// Moves the kind on to the first moment, from `settled`, at which it has `need` openings. What is passed on the way is
// never asked for again: nobody of this kind comes before an earlier one.
bool Schedule::earliest(Kind& kind, long need) {
  const auto later = [](const Gain& a, const Gain& b) { return a.when > b.when; };
  const auto take = [&] {
    kind.openings += kind.gains.front().openings;
    std::pop_heap(kind.gains.begin(), kind.gains.end(), later);
    kind.gains.pop_back();
  };
  for (;;) {
    while (!kind.gains.empty() && kind.gains.front().when <= kind.settled) take();
    if (kind.openings >= need) return true;
    if (kind.gains.empty()) return false;
    kind.settled = kind.gains.front().when;
  }
}

// The most openings of this kind that a taker can make unusable by holding one slot.
long Schedule::cost_of_a_slot(const Wants& taker, const Kind& kind) {
  if (!kind.wants.shared) return 1;
  if (!taker.shared || !compatible(kind.wants, taker.uid, taker.share_with_any)) return kind.most;
  const std::uint64_t size = std::min<std::uint64_t>(taker.memory_mib, std::uint64_t{1} << 40) + share_context_mib;
  const std::uint64_t unit = kind.wants.memory_mib + share_context_mib;
  return std::min(kind.most, static_cast<long>((size + unit - 1) / unit));
}

void Schedule::promise(std::size_t waiter, Kind& own) {
  const Waiter& who = line_[waiter];
  // On `count` different slots: with so many openings they cannot all lie on fewer.
  const long need = who.wants.count == 0 ? 0 : (static_cast<long>(who.wants.count) - 1) * own.most + 1;
  const WallTime held_up_until = own.settled;
  if (!earliest(own, need)) {
    own.settled = held_up_until;
    return give_up(waiter, held_up_until);
  }
  const WallTime start = own.settled;
  starts_[waiter] = start;
  const long room = own.openings - need;
  own.promises.push_back({waiter, start, own.promises.empty() ? room : std::min(room, own.promises.back().room)});
  for (Kind& kind : kinds_) {
    if ((kind.wants.eligible & who.wants.eligible).none()) continue;
    kind.settled = std::max(kind.settled, start);
    const std::size_t slots = std::min<std::size_t>(who.wants.count, (kind.possible & who.at_best).count());
    const long cost = static_cast<long>(slots) * cost_of_a_slot(who.wants, kind);
    if (cost == 0) continue;
    kind.openings -= cost;
    if (who.wants.time) add_gain(kind, end_of(start, *who.wants.time), cost);
  }
}

// Nobody waits for it, but it may start before anybody behind it, at a moment that nobody can name.
void Schedule::give_way(const Waiter& who) {
  for (Kind& kind : kinds_) {
    const std::size_t slots = std::min<std::size_t>(who.wants.count, (kind.possible & who.at_best).count());
    kind.openings -= static_cast<long>(slots) * cost_of_a_slot(who.wants, kind);
  }
}

void Schedule::give_up(std::size_t waiter, WallTime held_up_until) {
  const Waiter& who = line_[waiter];
  held_up_[waiter] = held_up_until;
  hopeless_ |= who.wants.eligible;
  for (Kind& kind : kinds_)                    // those behind it are held up at least as long
    if ((kind.wants.eligible & who.wants.eligible).any()) kind.settled = std::max(kind.settled, held_up_until);
  const bool said = std::any_of(forbidden_.begin(), forbidden_.end(), [&](const Forbidden& other) {
    return other.until <= held_up_until && (who.at_best & ~other.slots).none();
  });
  if (!said) forbidden_.push_back({waiter, who.at_best, held_up_until});
}

SlotSet Schedule::harmless(std::size_t waiter, const SlotSet& free, WallTime end) const {
  SlotSet allowed = free;
  for (const Forbidden& forbidden : forbidden_)
    if (forbidden.from < waiter && forbidden.until < end) allowed &= ~forbidden.slots;
  struct Limit { SlotSet slots; long cost, room; };
  std::vector<Limit> limits;
  for (const Kind& kind : kinds_) {
    const auto bound = std::partition_point(kind.promises.begin(), kind.promises.end(), [&](const Promise& promised) {
      return promised.waiter < waiter && promised.start < end;
    });
    if (bound == kind.promises.begin()) continue;
    const Limit limit{kind.possible & allowed, cost_of_a_slot(line_[waiter].wants, kind), std::prev(bound)->room};
    if (static_cast<long>(limit.slots.count()) * limit.cost > limit.room) limits.push_back(limit);
  }
  if (limits.empty()) return allowed;

  // Slots that few others are promised first, then in order: the answer must not depend on who asks.
  std::vector<std::pair<long, unsigned>> order;
  for_each(allowed, slots_, [&](unsigned s) {
    order.emplace_back(std::count_if(limits.begin(), limits.end(), [&](const Limit& l) { return l.slots[s]; }), s);
  });
  std::sort(order.begin(), order.end());
  SlotSet result;
  for (const auto& [touched, s] : order) {
    const auto spares = [&](const Limit& limit) { return !limit.slots[s] || limit.cost <= limit.room; };
    if (!std::all_of(limits.begin(), limits.end(), spares)) continue;
    result.set(s);
    for (Limit& limit : limits)
      if (limit.slots[s]) limit.room -= limit.cost;
  }
  return result;
}

std::optional<Seconds> Schedule::longest_harmless(std::size_t waiter, const SlotSet& free) const {
  const auto enough = [&](Seconds time) {
    return harmless(waiter, free, end_of(now_, time)).count() >= line_[waiter].wants.count;
  };
  if (enough(longest_time)) return longest_time;
  std::vector<Seconds> ends;                   // a claim that ends with a promise does not meet it
  for (const Kind& kind : kinds_)
    for (const Promise& promised : kind.promises)
      if (promised.waiter < waiter) ends.push_back(std::chrono::floor<Seconds>(promised.start - now_));
  for (const Forbidden& forbidden : forbidden_)
    if (forbidden.from < waiter) ends.push_back(std::chrono::floor<Seconds>(forbidden.until - now_));
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const auto first = std::partition_point(ends.begin(), ends.end(), enough);
  if (first == ends.begin() || *std::prev(first) <= Seconds{0}) return std::nullopt;
  return *std::prev(first);
}

}  // namespace thole::plan
