// Honest waiters among such as never start: frozen ones, and forged ones that come and go as they please. Plays a clock, on
// which the honest look when they are woken, when their decision says so, or after 2 s; and holds the rule, with its grace, to
// this: who could start if nobody had declared less does so within a bound that does not depend on how many others there are.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/turn/grace.hpp"
#include "support/dice.hpp"
#include "support/queues.hpp"

namespace thole::test {
namespace {

constexpr Millis step{100};
constexpr Millis longest = plan::Grace::patience_behind + 2 * plan::Grace::latest + step;

class Crowd {
 public:
  Crowd(unsigned slots, std::uint64_t seed, bool forged) : dice_(seed), forged_(forged), states_(slots, {true, 40960, 0}) {
    for (unsigned s = 0; s < slots; ++s) {
      queue_.slots.push_back({fmt::format("GPU-{}", s), {}});
      ends_.emplace_back();
    }
  }

  void play(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i, now_ += step) {
      if (dice_.roll(12) == 0) arrive(dice_.roll(3) == 0);
      if (forged_) forge();
      end_claims();
      look_all();
      for (const auto& [number, one] : honest_) RC_ASSERT(now_ - one.could_since.value_or(now_) <= longest);
    }
  }

  unsigned let_go_first = 0, outlived = 0;     // that the play was worth something

 private:
  struct Honest {
    plan::Grace grace{};
    SteadyTime next{};                         // its own look
    bool woken = true;
    std::optional<SteadyTime> could_since{};   // so its looks say
  };

  WallTime wall() const { return noon + std::chrono::duration_cast<Millis>(now_ - SteadyTime{}); }

  void arrive(bool frozen) {
    model::TicketView ticket;
    ticket.number = next_ += 1000;
    ticket.uid = frozen ? 666 : 1000;
    for (std::size_t s = 0; s < states_.size(); ++s) ticket.eligible[s] = dice_.roll(3) != 0;
    if (ticket.eligible.none()) ticket.eligible.set(0);
    ticket.count = 1 + dice_.roll(static_cast<std::uint32_t>(ticket.eligible.count()));
    if (dice_.roll(4) != 0) ticket.time = Seconds{1 + dice_.roll(frozen ? 3 : 60)};
    queue_.tickets.push_back(ticket);
    if (!frozen) honest_[ticket.number].next = now_;
  }

  // A newer one for the newest that declares next to nothing: whatever was spent on that one is not on this.
  void forge() {
    if (std::erase_if(queue_.tickets, [](const auto& ticket) { return ticket.uid == 667; }) == 0 && dice_.roll(5) != 0) return;
    model::TicketView ticket;
    ticket.number = next_ += 1;
    ticket.uid = 667;
    ticket.eligible.set(dice_.roll(static_cast<std::uint32_t>(states_.size())));
    ticket.time = Seconds{1};
    queue_.tickets.push_back(ticket);
  }

  void end_claims() {
    for (std::size_t s = 0; s < ends_.size(); ++s) {
      if (!ends_[s] || *ends_[s] > now_) continue;
      ends_[s].reset();
      queue_.slots[s].holders.clear();
      for (auto& [number, one] : honest_) one.woken = true;   // who is woken by what is another test's business
    }
  }

  void look_all() {
    for (bool again = true; again;) {
      again = false;
      for (const model::TicketView& ticket : std::vector(queue_.tickets)) {
        const auto one = honest_.find(ticket.number);
        if (one == honest_.end() || (!one->second.woken && one->second.next > now_)) continue;
        again = look(ticket, one->second) || again;
      }
    }
  }

  // True when it has started: then others look again.
  bool look(const model::TicketView& ticket, Honest& one) {
    queue_.by_clock = one.next <= now_;
    one.woken = false;
    bool could = false;
    const auto decide = [&](const model::QueueView& shown) {
      return plan::decide(shown, ticket.number, ticket, states_, lowest(ticket.count), wall());
    };
    const model::Decision decision = one.grace.decide(queue_, ticket.number, now_, [&](model::QueueView shown) {
      const model::Decision asked = decide(shown);
      shown.yields = false;
      could = std::holds_alternative<model::Take>(decide(shown));
      return asked;
    });
    if (!could) one.could_since.reset();
    else if (!one.could_since) one.could_since = now_;
    if (const auto* take = std::get_if<model::Take>(&decision)) {
      outlived += now_ - *one.could_since >= plan::Grace::patience;
      start(ticket, take->slots);
      return true;
    }
    const auto& wait = std::get<model::Wait>(decision);
    let_go_first += !wait.yields_to.empty();
    const SteadyTime next = now_ + wait.look_again.value_or(Millis{2000});
    one.next = queue_.by_clock ? next : std::min(one.next, next);
    for (const std::uint64_t number : wait.nudge)
      if (const auto other = honest_.find(number); other != honest_.end()) other->second.woken = true;
    return false;
  }

  void start(const model::TicketView& ticket, const std::vector<unsigned>& slots) {
    model::SlotHolder holder{ticket.uid, false, false, {}, {}};
    const Seconds lasts = ticket.time.value_or(Seconds{1 + dice_.roll(30)});
    if (ticket.time) holder.until = wall() + lasts;
    for (const unsigned s : slots) {
      queue_.slots[s].holders.push_back(holder);
      ends_[s] = now_ + lasts;
    }
    honest_.erase(ticket.number);
    std::erase_if(queue_.tickets, [&](const auto& other) { return other.number == ticket.number; });
    for (auto& [number, other] : honest_) other.woken = true;
  }

  Dice dice_;
  bool forged_;
  model::QueueView queue_;
  std::vector<plan::SlotState> states_;
  std::vector<std::optional<SteadyTime>> ends_;
  std::map<std::uint64_t, Honest> honest_;
  SteadyTime now_{};
  std::uint64_t next_ = 0;
};

void play_beside_sleepers(bool forged) {
  Crowd crowd(*rc::gen::inRange(1u, 5u), *rc::gen::arbitrary<std::uint32_t>(), forged);
  crowd.play(500);
  RC_TAG(std::string(crowd.outlived ? "some outlived their patience" : crowd.let_go_first ? "some let others go first" : "-"));
}

RC_GTEST_PROP(SleepersProperty, FrozenWaitersKeepNobodyLongerThanTheirGrace, ()) { play_beside_sleepers(false); }
RC_GTEST_PROP(SleepersProperty, NorDoThoseWhoAreForgedAnewAtEveryMoment, ()) { play_beside_sleepers(true); }

}  // namespace
}  // namespace thole::test
