// Claiming while somebody keeps `alloc`: without order, and not without exclusion.
//
// How this works. Nobody may be kept from claiming by a lock that anybody can take. Who has waited long enough for alloc looks
// at the slots by himself, in ascending order, keeps the trial locks that succeed, and takes what the rule wants of them.
// Others may do the same, or be inside of alloc: each trial lock that fails is somebody else's or his trial, so all is given
// back and tried again after a random pause; nobody waits while he holds one. The queue and the mask stay as they are: they
// belong to those inside. What is lost is order, and wake-ups (a look after 2 s at the latest replaces them). Sharers look
// again after they have made their notes, as always (still_admitted): the later one sees the earlier one, and both may give
// way.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "host/claims/fifo_pass.hpp"

namespace thole::host {
namespace {

constexpr unsigned shortest_pause_ms = 20, longest_pause_ms = 400;

Millis random_pause() {
  return Millis(shortest_pause_ms + random_bits() % (longest_pause_ms - shortest_pause_ms));
}

}  // namespace

FifoTicket::Outcome FifoTicket::step_without_order(Pass& pass, const model::Rule& rule, std::optional<port::Claim>& claim) {
  watches_ = {};
  pass.view.tickets.clear();
  pass.view.ordered = false;
  pass.look.fill(pass.view.slots, wants_.eligible, /*try_all=*/true);
  if (notes_) {
    notes_->read(pass.nodes.slots());
    pass.look.inform(pass.view.slots, *notes_, store_.me().uid, pass.now);
  }
  if (entry_.shared && pass.look.any_held() && !pass.look.informed()) return Outcome::uninformed;
  decision_ = rule(pass.view, std::nullopt, wants_, pass.now);
  const auto* decided = std::get_if<model::Take>(&decision_);
  if (decided) {
    model::Take decision = *decided;
    std::sort(decision.slots.begin(), decision.slots.end());
    const Outcome outcome = take(pass, decision, claim);
    if (outcome != Outcome::again) return outcome;
    decision_ = model::Wait{};
  }
  if (std::holds_alternative<model::Refuse>(decision_)) spent_ = std::exchange(turn_, std::nullopt);
  if (auto* wait = std::get_if<model::Wait>(&decision_)) wait->look_again = random_pause();
  excused_ = true;
  return Outcome::done;
}

}  // namespace thole::host
