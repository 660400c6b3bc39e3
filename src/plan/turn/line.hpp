// The waiting line as the rule sees it: what each waiter could use, who is passed over, who stands before whom.
// Internal to the rule (turn.cpp, schedule.cpp).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/turn/turn.hpp"

namespace thole::plan {

// How many claims like `wants` fit on a slot beside `holders`: 0 or 1 for an exclusive one, up to 16 for a sharer.
// Looks at claims and their memory only, not at SlotState::usable.
unsigned openings_for(const Wants& wants, std::span<const model::SlotHolder> holders, const SlotState& state);

// May two sharers be on one GPU? One user's may; others only if all of them said so.
bool compatible(const Wants& wants, std::uint32_t uid, bool with_any);

struct Waiter {
  std::uint64_t number = 0;                    // 0: mine, which has no ticket yet
  const Wants& wants;                          // of the QueueView, or the caller's
  bool stopped = false;
  model::SlotSet possible;                     // slots it is reckoned to use once every claim were released
  model::SlotSet at_best;                      // and those that it might use then
  model::SlotSet usable;                       // slots it could use at this moment, were they not claimed
  bool passed_over = false;                    // does not hold up those behind it …
  bool gives_way = false;                      // … but counts in what they are promised: it may go first when it can
};

// The queue as sets. Refers to the QueueView and the states it was made from.
class Line {
 public:
  // With `wants`, the waiter `mine` wants just that; without a ticket it stands at the end.
  Line(const model::QueueView& queue, const std::vector<SlotState>& states, std::optional<std::uint64_t> mine,
       const Wants* wants);

  std::size_t size() const { return waiters_.size(); }
  const Waiter& operator[](std::size_t i) const { return waiters_[i]; }
  std::size_t mine() const { return mine_; }   // size() when there is none
  std::optional<std::size_t> find(std::uint64_t number) const;

  model::SlotSet open_to(const Waiter& waiter) const;     // slots that admit it now
  bool can_start(std::size_t i) const;                    // enough of them, were there nobody before it
  bool might_start(std::size_t i) const;                  // perhaps: it has to look itself
  std::optional<std::size_t> before(std::size_t i) const;  // the nearest earlier waiter that must go first
  std::vector<bool> held_up() const;                      // for each waiter: has it one before it?

  const model::SlotSet& claimed() const { return claimed_; }
  model::SlotSet could_admit_a_claim() const { return named_ & ~exclusive_; }
  const model::SlotView& slot(unsigned s) const { return queue_.slots[s]; }
  SlotState state(unsigned s) const { return s < states_.size() ? states_[s] : SlotState{}; }
  SlotState state_for(const Wants& wants, unsigned s) const;  // as its memory counts for this waiter (--trust-claims)

 private:
  Waiter waiter(std::uint64_t number, const Wants& wants, bool stopped, bool is_mine) const;
  model::SlotSet that_would_do(const Wants& wants, bool beside_use) const;
  bool takes_beside_use(const Wants& wants, unsigned s) const;
  bool has_memory(const Wants& wants, unsigned s) const;
  model::SlotSet open(const Wants& wants, model::SlotSet set) const;
  model::SlotSet without_left(const Wants& wants, model::SlotSet open) const;

  const model::QueueView& queue_;
  const std::vector<SlotState>& states_;
  model::SlotSet named_, usable_, sick_, claimed_, exclusive_;  // exclusive_: held by a claim that does not share
  model::SlotSet one_process_, kept_by_use_;
  std::optional<model::SlotSet> usable_to_me_;
  std::vector<Waiter> waiters_;
  std::size_t mine_ = 0;
};

// Calls visit(slot number) for every member, ascending.
template <class Visit>
void for_each(const model::SlotSet& set, std::size_t slots, Visit visit) {
  for (unsigned s = 0; s < slots; ++s)
    if (set[s]) visit(s);
}

}  // namespace thole::plan
