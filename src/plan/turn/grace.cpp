#include "plan/turn/grace.hpp"

#include <algorithm>
#include <iterator>

#include "base/odd_pause.hpp"

namespace thole::plan {
namespace {

bool earlier(const model::TicketView& ticket, std::optional<std::uint64_t> mine) { return !mine || ticket.number < *mine; }

}  // namespace

model::Decision Grace::decide(const model::QueueView& queue, std::optional<std::uint64_t> mine, SteadyTime now,
                              const Rule& rule) {
  see(queue, mine);
  for (;;) {
    std::optional<model::QueueView> marked;
    if (differs(queue, mine)) mark(marked.emplace(queue), mine);
    model::Decision decision = rule(marked ? *marked : queue);
    auto* wait = std::get_if<model::Wait>(&decision);
    if (!wait || !count(*wait, queue.by_clock, now)) return decision;
  }
}

void Grace::see(const model::QueueView& queue, std::optional<std::uint64_t> mine) {
  if (!queue.ordered) return;
  there_.clear();
  for (const model::TicketView& ticket : queue.tickets)
    if (earlier(ticket, mine)) there_.emplace(ticket.number, ticket.uid);
  if (!begun_ || (mine && number_ && *mine != *number_)) {   // another number: another directory, another line
    in_line_ = there_;
    begun_ = true;
  }
  for (const Who& who : queue.also_in_line)
    if (!mine || who.first < *mine) in_line_.insert(who);
  if (mine) number_ = mine;
}

bool Grace::goes_before_me(const model::TicketView& ticket) const {
  const Who who{ticket.number, ticket.uid};
  return in_line_.contains(who) && !passed_.contains(who);
}

// Must the rule be shown another queue than this, in which some do not go before me?
bool Grace::differs(const model::QueueView& queue, std::optional<std::uint64_t> mine) const {
  return !yields_ || std::any_of(queue.tickets.begin(), queue.tickets.end(), [&](const model::TicketView& ticket) {
    return earlier(ticket, mine) && !ticket.stopped && !goes_before_me(ticket);
  });
}

void Grace::mark(model::QueueView& queue, std::optional<std::uint64_t> mine) const {
  queue.yields = yields_;
  for (model::TicketView& ticket : queue.tickets)
    if (earlier(ticket, mine) && !goes_before_me(ticket)) ticket.stopped = true;
}

void Grace::add_up(Millis interval, bool any_idle) {
  if (any_idle && was_held_up_) held_up_ += interval;
  if (!any_idle) held_up_ = std::max(Millis{0}, held_up_ - interval / 4);
  was_held_up_ = any_idle;
}

Millis Grace::of_those_who_are_back() {
  Millis time{0};
  for (auto who = left_.begin(); who != left_.end();) {
    const bool is_back = there_.contains(who->first);
    if (is_back) time += who->second;
    who = is_back ? left_.erase(who) : std::next(who);
  }
  return time;
}

// Whether somebody has been passed.
bool Grace::count(model::Wait& wait, bool by_clock, SteadyTime now) {
  bool passed = false;
  if (by_clock) {
    const Millis interval =
        last_ ? std::min(std::chrono::duration_cast<Millis>(now - *last_), longest_interval) : Millis{0};
    last_ = now;
    const bool no_more = count_yields(wait, interval);
    passed = count_time(wait, interval) || no_more;
  }
  call(wait);
  if (!wait.idle.empty()) attentive_ = looks_after;
  else if (!wait.yields_to.empty()) attentive_ = std::max(attentive_, by_clock ? looks_after : 1);
  if (attentive_ == 0) return passed;
  if (by_clock) --attentive_;
  wait.look_again = odd_pause(soonest, latest, now, looks_ + number_.value_or(0));
  return passed;
}

// Whether from now on I yield to nobody.
bool Grace::count_yields(const model::Wait& wait, Millis interval) {
  if (yielded_last_) yielded_ += interval;
  yielded_last_ = !wait.yields_to.empty();
  to_several_ = to_several_ || wait.yields_to.size() > 1;
  if (!yielded_last_ || yielded_ < (to_several_ ? patience_behind : patience)) return false;
  yielded_last_ = yields_ = false;
  return true;
}

bool Grace::count_time(const model::Wait& wait, Millis interval) {
  add_up(interval, !wait.idle.empty());
  const Millis back = of_those_who_are_back();
  std::set<Who> leaving;
  bool passed = false;
  for (const model::Idle& idle : wait.idle) {
    const Who who{idle.number, idle.uid}, first{idle.first, idle.uid_of_first};
    Account& account = accounts_[who];
    account.spent += back;
    const bool moved = account.first != first && !there_.contains(account.first);
    if (account.look == looks_ && moved) leaving.insert(account.first);
    if (account.look == looks_ && !moved) account.spent += interval;
    account.look = looks_ + 1;
    account.first = first;
    account.behind = account.behind || first != who;
    const Millis its_patience = account.behind ? patience_behind : patience;
    if (account.spent >= its_patience || held_up_ >= patience_with_all) passed = passed_.insert(who).second || passed;
  }
  for (const Who& who : leaving) left_[who] += interval;
  ++looks_;
  return passed;
}

// An honest one that has missed its moment needs no more than one call.
void Grace::call(model::Wait& wait) {
  for (const model::Idle& idle : wait.idle) {
    const bool stands_first = idle.first == idle.number && idle.uid_of_first == idle.uid;
    if (stands_first && called_.emplace(idle.number, idle.uid).second) wait.nudge.push_back(idle.number);
  }
}

}  // namespace thole::plan
