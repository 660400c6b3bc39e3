#include "plan/grace.hpp"

#include <algorithm>

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
    if (!wait || !count(*wait, now)) return decision;
  }
}

void Grace::see(const model::QueueView& queue, std::optional<std::uint64_t> mine) {
  if (!queue.ordered) return;
  if (!begun_ || (mine && number_ && *mine != *number_)) {   // another number: another directory, another line
    in_line_.clear();
    for (const model::TicketView& ticket : queue.tickets)
      if (earlier(ticket, mine)) in_line_.insert(ticket.number);
    begun_ = true;
  }
  if (mine) number_ = mine;
}

bool Grace::goes_before_me(const model::TicketView& ticket) const {
  return in_line_.contains(ticket.number) && !passed_.contains(ticket.number);
}

// Must the rule be shown another queue than this, in which some do not go before me?
bool Grace::differs(const model::QueueView& queue, std::optional<std::uint64_t> mine) const {
  return std::any_of(queue.tickets.begin(), queue.tickets.end(), [&](const model::TicketView& ticket) {
    return earlier(ticket, mine) && !ticket.stopped && !goes_before_me(ticket);
  });
}

void Grace::mark(model::QueueView& queue, std::optional<std::uint64_t> mine) const {
  for (model::TicketView& ticket : queue.tickets)
    if (earlier(ticket, mine) && !goes_before_me(ticket)) ticket.stopped = true;
}

// True when somebody has been passed.
bool Grace::count(model::Wait& wait, SteadyTime now) {
  const Millis interval =
      last_ ? std::min(std::chrono::duration_cast<Millis>(now - *last_), longest_interval) : Millis{0};
  bool passed = false;
  for (const model::Idle& idle : wait.idle) {
    Account& account = accounts_[idle.number];
    if (account.look == looks_ && account.first == idle.first) account.spent += interval;
    account.look = looks_ + 1;
    account.first = idle.first;
    account.behind = account.behind || idle.first != idle.number;
    if (account.spent >= (account.behind ? patience_behind : patience)) passed = passed_.insert(idle.number).second || passed;
    if (idle.first != idle.number || account.nudged) continue;
    account.nudged = true;       // an honest one that has missed its moment needs no more
    wait.nudge.push_back(idle.number);
  }
  if (!wait.idle.empty()) attentive_ = looks_after;
  if (attentive_ > 0) {
    --attentive_;
    const std::uint64_t odd = (looks_ + number_.value_or(0)) * 0x9e3779b97f4a7c15u;
    wait.look_again = soonest + Millis((odd >> 32) % static_cast<std::uint64_t>((latest - soonest).count()));
  }
  last_ = now;
  ++looks_;
  return passed;
}

}  // namespace thole::plan
