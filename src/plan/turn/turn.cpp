// How nobody sleeps through his chance. The store wakes a waiter when the ticket it stands behind leaves, when one it
// follows leaves, when a holder it watches lets go, or when it is nudged. That suffices because, at any time:
//   * every claimed slot that a waiter wants is watched by it, or is wanted by the waiter it stands behind, who sees to it
//     in the same way: so a release wakes the first in line for that slot, and no herd. Whoever starts while others wait
//     nudges those whose watch must now cover what it took;
//   * slot by slot, everybody follows the one next before him. So each ticket that leaves has a follower, the first later one
//     that overlaps it, and who has lost the one before him looks again and finds whom to follow now. Only the first follower
//     and those behind it can gain by the leaving, which also covers a start: to become a holder takes from everybody, to
//     leave the line gives. (One exception: what is taken may make a waiter that leaves slots to others give way.)
//   * whoever is woken and cannot start nudges the first later waiter that can, of each set that compete; one that starts
//     leaves, so its follower looks for the next. So one free slot does not wake all who would like it.
//   * who may pass others and lets a shorter one start first follows it and wakes it; whoever starts wakes those who may still
//     pass, the shortest first. As long as anybody may pass, one of them has been woken, or somebody who will wake it.
// tests/property/plan_turn_test.cpp plays this without any time-out.
#include "plan/turn/turn.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/turn/line.hpp"
#include "plan/turn/passing.hpp"
#include "plan/turn/schedule.hpp"

namespace thole::plan {

using model::Decision;
using model::QueueView;
using model::Refuse;
using model::SlotSet;
using model::Take;
using model::Wait;

namespace {

constexpr unsigned most_stopped = 16;          // each followed costs a descriptor

// Never, whatever the others do: the store must not keep such a ticket.
std::optional<Refuse> never(const Wants& wants, const QueueView& queue, const std::vector<SlotState>& states) {
  if (wants.eligible.count() < wants.count)
    return Refuse{true, fmt::format("{} asked for, but only {} would do", wants.count, wants.eligible.count())};
  if (!wants.shared) {
    if (wants.eligible.count() >= std::size_t{wants.count} + wants.leave) return std::nullopt;
    return Refuse{true, fmt::format("{} asked for and {} left to others, but only {} would do", wants.count, wants.leave,
                                    wants.eligible.count())};
  }
  unsigned too_small = 0, unknown = 0;
  for_each(wants.eligible, queue.slots.size(), [&](unsigned s) {
    const std::uint64_t memory = s < states.size() ? states[s].memory_mib : 0;
    if (memory == 0) ++unknown;
    else if (wants.memory_mib >= memory || memory - wants.memory_mib < share_context_mib) ++too_small;
  });
  if (wants.eligible.count() - too_small < wants.count)
    return Refuse{true, fmt::format("a share of {} (and {} for its context) is more than the GPU's memory",
                                    format_mib(wants.memory_mib), format_mib(share_context_mib))};
  if (wants.eligible.count() - too_small - unknown < wants.count)
    return Refuse{false, "the memory of the GPU cannot be read, so it cannot be shared"};
  return std::nullopt;
}

std::optional<Slots> backfill(const Line& line, std::size_t i, const SlotSet& free, const Schedule& schedule,
                              const Chooser& choose, WallTime now) {
  const Wants& wants = line[i].wants;
  const WallTime end = schedule.end_of(now, *wants.time);
  const SlotSet allowed = schedule.harmless(i, free, end);
  if (allowed.count() < wants.count) return std::nullopt;
  // The best slots, if they harm nobody; else the best of those that surely do not.
  if (const auto best = pick(line, wants, free, choose)) {
    const SlotSet set = set_of(*best);
    if (schedule.harmless(i, set, end) == set) return best;
  }
  return pick(line, wants, allowed, choose);
}

// Those who want a slot that I take now, and neither watch it yet nor stand behind one who does; and those behind a waiter
// that may no longer start now, and so gives way.
std::vector<std::uint64_t> must_watch(const Line& line, const Slots& taken) {
  const SlotSet slots = set_of(taken);
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (i == line.mine() || line[i].stopped) continue;
    const auto before = line.before(i);
    if (before && *before == line.mine()) continue;  // my leaving wakes it
    const SlotSet wanted = line[i].wants.eligible & slots;
    if (before && line[*before].gives_way && (line[*before].wants.eligible & slots).any()) result.push_back(line[i].number);
    else if ((before ? wanted & ~line[*before].wants.eligible : wanted).any()) result.push_back(line[i].number);
  }
  return result;
}

// The earlier waiters that are next before me for some slot: nobody who reacts stands between us for it. Of those that do not
// react a few: what their start takes I would see by my look after 2 s.
std::vector<std::uint64_t> to_follow(const Line& line, std::size_t i, std::optional<std::size_t> before) {
  std::vector<std::uint64_t> result;
  const SlotSet& mine = line[i].wants.eligible;
  unsigned followed_stopped = 0;
  SlotSet open = mine;                         // not wanted by anybody between j and me who will react
  for (std::size_t j = i; j-- > 0 && open.any();) {
    const SlotSet& other = line[j].wants.eligible;
    if (before != j && (other & open).any() && (!line[j].stopped || followed_stopped++ < most_stopped))
      result.push_back(line[j].number);
    if (!line[j].stopped) open &= ~other;
  }
  return result;
}

// Those before me for any slot who could start at this moment, if all like them before them did not exist.
std::vector<model::Idle> idle_before(const Line& line, std::size_t me) {
  std::vector<model::Idle> result;
  std::vector<std::size_t> firsts;             // nobody who could start stands before these
  SlotSet held_up;                             // wanted by somebody earlier who must go first, and cannot start
  for (std::size_t i = 0; i < me; ++i) {
    const SlotSet& wanted = line[i].wants.eligible;
    if (line[i].passed_over) continue;
    if ((wanted & held_up).any() || !line.can_start(i)) {
      held_up |= wanted;
      continue;
    }
    const auto overlaps = [&](std::size_t j) { return (line[j].wants.eligible & wanted).any(); };
    const auto first = std::find_if(firsts.begin(), firsts.end(), overlaps);
    const std::size_t root = first == firsts.end() ? i : *first;
    if (root == i) firsts.push_back(i);
    if ((wanted & line[me].wants.eligible).any())
      result.push_back({line[i].number, line[i].wants.uid, line[root].number, line[root].wants.uid});
  }
  return result;
}

// Later waiters that could start at this moment: exactly those whose own decision would be to start, and those that would wait
// for one of them. First those who have nobody before them, then those who may pass.
std::vector<std::uint64_t> can_start_behind(Moment& moment, std::size_t i, bool may_pass_too) {
  const Line& line = moment.line;
  if (i + 1 >= line.size() || line.could_admit_a_claim().none()) return {};
  const std::vector<bool> held_up = line.held_up();
  std::vector<std::size_t> those;
  for (std::size_t k = i + 1; k < line.size(); ++k)
    if (!line[k].stopped && !held_up[k] && line.might_start(k)) those.push_back(k);
  if (may_pass_too)
    for (const std::size_t k : who_may_pass(moment, i + 1)) those.push_back(k);
  return first_of(line, those);
}

// `yielded`: those who go first because they declared less. Who waits for them wakes only them: they are fewer at each step.
Wait wait(Moment& moment, const SlotSet& free, std::optional<std::size_t> before, const std::vector<std::size_t>& yielded) {
  const Line& line = moment.line;
  const std::size_t me = line.mine(), slots = moment.queue.slots.size();
  const Wants& wants = line[me].wants;
  Wait result;
  result.watch = wants.eligible & line.claimed();
  result.passed_over = line[me].passed_over;
  if (before) {
    result.behind = line[*before].number;
    result.watch &= ~line[*before].wants.eligible;
    result.could_start_but_for_behind = !line.before(*before) && line.can_start(*before);
  }
  if (!yielded.empty()) {
    result.behind = line[yielded.front()].number;
    result.could_start_but_for_behind = false;
    for (const std::size_t i : yielded) result.yields_to.emplace_back(line[i].number, line[i].wants.uid);
  }
  result.follow = to_follow(line, me, yielded.empty() ? before : yielded.front());
  for_each(wants.eligible & ~free, slots, [&](unsigned s) {
    if (line.slot(s).key.empty()) return;
    const SlotState seen = line.state_for(wants, s);
    SlotState unused = seen;
    unused.unclaimed_mib = 0;
    const auto fits = [&](const SlotState& state) { return openings_for(wants, line.slot(s).holders, state) > 0; };
    result.observe[s] = fits(unused) && !(line[me].usable[s] && fits(seen));
  });
  for (std::size_t i = 0; i < me; ++i) {
    if ((line[i].wants.eligible & wants.eligible).none()) continue;
    if (!line[i].passed_over) ++result.position;
    else if (!line[i].stopped && !line[i].gives_way) result.passes_by_look = true;
  }
  result.idle = idle_before(line, me);
  result.nudge = can_start_behind(moment, me, yielded.empty());
  if (!yielded.empty())
    for (const std::uint64_t number : first_of(line, yielded)) result.nudge.push_back(number);
  if (!moment.schedule) moment.schedule.emplace(line, me + 1, slots, moment.now);
  result.promise = moment.schedule->start(me);
  if (before && free.count() >= wants.count && yielded.empty()) result.would_fit = moment.schedule->longest_harmless(me, free);
  return result;
}

// Whoever takes before its turn.
void keep_within(Take& take, Moment& moment, const Wants& wants) {
  const Line& line = moment.line;
  const SlotSet taken = set_of(take.slots);
  for (std::size_t i = 0; i < line.mine(); ++i)
    if (!line[i].stopped && !line[i].passed_over && (line[i].wants.eligible & taken).any())
      take.passed.emplace_back(line[i].number, line[i].wants.uid);
  const std::optional<Seconds> longest = moment.plan().longest_harmless(line.mine(), taken);
  if (longest && *longest >= longest_time) return;
  take.ends_by = moment.now + std::max(longest.value_or(*wants.time), *wants.time);
}

}  // namespace

Decision decide(const QueueView& queue, std::optional<std::uint64_t> mine, const Wants& wants,
                const std::vector<SlotState>& states, const Chooser& choose, WallTime now) {
  if (auto refusal = never(wants, queue, states)) return *std::move(refusal);
  const Line line(queue, states, mine, &wants);
  const std::size_t me = line.mine();
  const SlotSet free = line.open_to(line[me]);
  const auto before = line.before(me);
  Moment moment{queue, states, line, now};
  std::vector<std::size_t> yielded;
  bool anothers_turn = false;
  if (free.count() >= wants.count) {
    std::optional<Slots> slots;
    if (!before) {
      slots = pick(line, wants, free, choose);
    } else if (wants.time) {
      slots = backfill(line, me, free, moment.plan(), choose, now);
      anothers_turn = slots && takes_a_turn(moment, *slots);
      if (anothers_turn) slots.reset();
      if (slots && queue.yields) yielded = yields_to(moment, *slots);
    }
    if (slots && yielded.empty()) {
      std::vector<std::uint64_t> nudge = must_watch(line, *slots);
      for (const std::uint64_t number : may_pass_next(moment, *slots))
        if (std::find(nudge.begin(), nudge.end(), number) == nudge.end()) nudge.push_back(number);
      Take take{*std::move(slots), std::move(nudge)};
      if (before) keep_within(take, moment, wants);
      return take;
    }
  }
  Wait result = wait(moment, free, before, yielded);
  if (anothers_turn) result.would_fit.reset();  // its time is not what it waits for
  return result;
}

std::vector<Outlook> outlooks(const QueueView& queue, const std::vector<SlotState>& states, WallTime now) {
  const Line line(queue, states, std::nullopt, nullptr);
  const Schedule schedule(line, line.size(), queue.slots.size(), now);
  std::vector<Outlook> result;
  for (std::size_t i = 0; i < line.size(); ++i) result.push_back({schedule.start(i), schedule.held_up_until(i)});
  return result;
}

std::vector<std::optional<WallTime>> promises(const QueueView& queue, const std::vector<SlotState>& states, WallTime now) {
  std::vector<std::optional<WallTime>> result;
  for (const Outlook& its : outlooks(queue, states, now)) result.push_back(its.start);
  return result;
}

}  // namespace thole::plan
