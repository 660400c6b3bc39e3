// What one pass under alloc finds out about the slots: who holds which, by trial locks, and of the holders what their notes
// say.
//
// How this works. A slot that `who` does not mark is taken for free without asking the kernel: if it is not, the lock
// says so when the slot is taken, and the rule is asked again. A marked slot is tried; and so is each, where somebody stands
// before me: anybody can wipe a mark, and whether he could start decides whether I go before him. A trial lock that succeeds is
// kept until the pass ends, because it is the very lock a taker wants next. Until inform() nothing is known of a holder but
// that he is there: for whoever shares the unit is full, and nobody's end is known.
#pragma once

#include <optional>
#include <vector>

#include "host/claims/claim_directory.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/notes.hpp"
#include "host/claims/who_file.hpp"

namespace thole::host {

class SlotLook {
 public:
  SlotLook(const ClaimDirectory& directory, WhoFile& who) : directory_(directory), who_(who) {}

  // Fills `views` (by slot number) for all named slots, and tries those of `wanted`: with bits in the mask only, or all.
  void fill(std::vector<model::SlotView>& views, const model::SlotSet& wanted, bool try_all = false);

  // From here on what is said of holders comes from these notes; those of `me` before all others.
  void inform(std::vector<model::SlotView>& views, const NoteBook& notes, uid_t me, WallTime now);
  bool informed() const { return notes_ != nullptr; }
  bool any_held() const;               // of the slots that were tried
  bool any_unknown(const std::vector<model::SlotView>& views) const;   // a holder of whom no note is believed

  // The berths held of a slot that was tried: 0 exclusively, k + 1 berth k.
  const std::vector<unsigned>& held_berths(unsigned slot) const { return held_[slot]; }

  // Tries one slot (again), whatever its bits say.
  void look_again(std::vector<model::SlotView>& views, unsigned slot);

  Fd kept(unsigned slot) { return std::move(kept_[slot]); }   // the exclusive trial lock, if there is one
  void drop(unsigned slot) { kept_[slot].reset(); }

  enum class Held { no, exclusively, by_sharers };
  Held try_slot(unsigned slot);                              // keeps the lock when it is free
  std::vector<unsigned> live_berths(unsigned slot) const;
  bool no_berth_left(unsigned slot) const;                   // all berths are locked, whoever has the slot

 private:
  void add_holders(model::SlotView& view, unsigned slot, Held held);
  void show_holders(model::SlotView& view, unsigned slot);
  model::SlotHolder holder_of(unsigned slot, unsigned berth);
  std::optional<Taker> taker_of(unsigned slot, unsigned berth);

  const ClaimDirectory& directory_;
  WhoFile& who_;
  std::array<Fd, model::max_slots> kept_;
  std::array<std::vector<unsigned>, model::max_slots> held_;
  const NoteBook* notes_ = nullptr;
  uid_t me_ = 0;
  WallTime now_{};
  std::optional<KernelLocks> locks_;
};

}  // namespace thole::host
