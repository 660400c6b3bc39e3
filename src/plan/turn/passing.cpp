#include "plan/turn/passing.hpp"

#include <algorithm>

namespace thole::plan {

using model::SlotSet;

namespace {

constexpr std::size_t most_supposed = 16;      // starts that are thought through; behind more of them is waited

// By what it declared, then by where it stands in line: mine, without a ticket, is the last there.
bool goes_first(const Line& line, std::size_t one, std::size_t other) {
  const auto declared = [&](std::size_t i) { return std::clamp(*line[i].wants.time, Seconds{0}, longest_time); };
  return declared(one) != declared(other) ? declared(one) < declared(other) : one < other;
}

// A queue as it is once some of its waiters have started.
class Supposed {
 public:
  Supposed(Moment& moment) : queue_(moment.queue), states_(moment.states), now_(moment.now) {
    for (std::size_t i = 0; i < queue_.tickets.size(); ++i) at_.push_back(i);
  }

  // `who` by where it stood in the line of before.
  void start(std::size_t who, const Wants& wants, const Slots& slots) {
    model::SlotHolder holder{wants.uid, wants.shared, wants.share_with_any, {}, {}};
    if (wants.shared) holder.memory_mib = wants.memory_mib;
    if (wants.time) holder.until = now_ + std::clamp(*wants.time, Seconds{0}, longest_time);
    for (const unsigned s : slots) queue_.slots[s].holders.push_back(holder);
    const auto found = std::find(at_.begin(), at_.end(), who);
    if (found == at_.end()) return;            // mine, without a ticket
    queue_.tickets.erase(queue_.tickets.begin() + (found - at_.begin()));
    at_.erase(found);
  }

  // It starts if it may; false if not. Which slots it would choose is not known: the lowest stand for them.
  bool starts(std::size_t who) {
    const Line line(queue_, states_, std::nullopt, nullptr);
    const auto i = static_cast<std::size_t>(std::find(at_.begin(), at_.end(), who) - at_.begin());
    const Wants wants = line[i].wants;
    SlotSet allowed = line.open_to(line[i]);
    if (allowed.count() < wants.count) return false;
    if (line.before(i)) {
      const Schedule schedule(line, i, queue_.slots.size(), now_);
      allowed = schedule.harmless(i, allowed, schedule.end_of(now_, *wants.time));
      if (allowed.count() < wants.count) return false;
    }
    const auto slots = pick(line, wants, allowed, [&](const SlotSet& free) -> std::optional<Slots> {
      Slots lowest;
      for_each(free, queue_.slots.size(), [&](unsigned s) {
        if (lowest.size() < wants.count) lowest.push_back(s);
      });
      return lowest;
    });
    if (takes_a_turn(line, i, *slots)) return false;
    start(who, wants, *slots);
    return true;
  }

  // Would it, as the waiter `i` of this queue, take from one whose turn it is, and who could start now, that he can?
  bool takes_a_turn(const Line& line, std::size_t i, const Slots& slots) const {
    const std::vector<bool> held_up = line.held_up();
    if (!held_up[i]) return false;
    const SlotSet taken = set_of(slots);
    std::vector<std::size_t> turns;            // usually none: who can start does
    for (std::size_t j = 0; j < i; ++j)
      if (!held_up[j] && !line[j].passed_over && (line[j].wants.eligible & taken).any() && line.can_start(j))
        turns.push_back(j);
    if (turns.empty()) return false;
    Supposed after(*this);
    after.start(i < at_.size() ? at_[i] : i, line[i].wants, slots);
    const Line left(after.queue_, states_, std::nullopt, nullptr);
    return std::any_of(turns.begin(), turns.end(), [&](std::size_t j) { return !left.can_start(j); });  // none of them left
  }

  const model::QueueView& queue() const { return queue_; }

 private:
  model::QueueView queue_;
  const std::vector<SlotState>& states_;
  WallTime now_;
  std::vector<std::size_t> at_;                // who is left, by the tickets
};

}  // namespace

SlotSet set_of(const Slots& slots) {
  SlotSet set;
  for (const unsigned s : slots) set.set(s);
  return set;
}

std::optional<Slots> pick(const Line& line, const Wants& wants, const SlotSet& free, const Chooser& choose) {
  if (wants.shared && wants.count > 0) {
    const SlotSet shared = free & line.claimed();
    SlotSet mine = shared;
    for_each(shared, model::max_slots, [&](unsigned s) {
      for (const model::SlotHolder& holder : line.slot(s).holders)
        if (holder.uid != wants.uid) mine.reset(s);
    });
    for (const SlotSet& some : {mine, shared})
      if (some.count() >= wants.count)
        if (auto slots = choose(some)) return slots;
  }
  return choose(free);
}

std::vector<std::size_t> who_may_pass(Moment& moment, std::size_t first) {
  std::vector<std::size_t> result;
  const Line& line = moment.line;
  if (first >= line.size() || line.could_admit_a_claim().none()) return result;
  const std::vector<bool> held_up = line.held_up();
  for (std::size_t i = first; i < line.size(); ++i) {
    const Wants& wants = line[i].wants;
    if (line[i].stopped || !held_up[i] || !wants.time) continue;
    const SlotSet free = line.open_to(line[i]);
    if (free.count() < wants.count) continue;
    const Schedule& schedule = moment.plan();
    if (schedule.harmless(i, free, schedule.end_of(moment.now, *wants.time)).count() >= wants.count) result.push_back(i);
  }
  std::stable_sort(result.begin(), result.end(), [&](std::size_t a, std::size_t b) { return goes_first(line, a, b); });
  return result;
}

bool takes_a_turn(Moment& moment, const Slots& slots) {
  return Supposed(moment).takes_a_turn(moment.line, moment.line.mine(), slots);
}

std::vector<std::size_t> yields_to(Moment& moment, const Slots& slots) {
  const Line& line = moment.line;
  const std::size_t me = line.mine();
  std::vector<std::size_t> those = who_may_pass(moment, 0);
  std::erase_if(those, [&](std::size_t i) {
    return i == me || !goes_first(line, i, me) || line[i].wants.leave > 0 ||
           (line[i].wants.eligible & line[me].wants.eligible).none();
  });
  if (those.empty() || those.size() > most_supposed) return those;
  Supposed after(moment);
  after.start(me, line[me].wants, slots);
  if (std::all_of(those.begin(), those.end(), [&](std::size_t i) { return after.starts(i); })) those.clear();
  return those;
}

std::vector<std::uint64_t> first_of(const Line& line, const std::vector<std::size_t>& waiters) {
  std::vector<std::uint64_t> result;
  SlotSet wanted;                              // by those named
  unsigned more = 2;
  for (const std::size_t i : waiters) {
    const bool competes = (line[i].wants.eligible & wanted).any();
    if (competes && more == 0) continue;
    result.push_back(line[i].number);
    wanted |= line[i].wants.eligible;
    more -= competes;
  }
  return result;
}

std::vector<std::uint64_t> may_pass_next(Moment& moment, const Slots& slots) {
  const Line& line = moment.line;
  const Wants& mine = line[line.mine()].wants;
  const SlotSet taken = mine.shared ? SlotSet() : set_of(slots);
  bool any = false;                            // usually not: then nothing is thought through
  for (std::size_t i = 0; i < line.size() && !any; ++i)
    any = i != line.mine() && !line[i].stopped && line[i].wants.time &&
          (line.open_to(line[i]) & ~taken).count() >= line[i].wants.count;
  if (!any) return {};
  Supposed after(moment);
  after.start(line.mine(), mine, slots);
  const Line left(after.queue(), moment.states, std::nullopt, nullptr);
  Moment then{after.queue(), moment.states, left, moment.now};
  return first_of(left, who_may_pass(then, 0));
}

}  // namespace thole::plan
