// What one pass under alloc finds out about the slots: who holds which, by trial locks, and of the holders what their notes
// say.
//
// How this works. A slot that `who` does not mark is taken for free without asking the kernel: if it is not, the lock
// says so when the slot is taken, and the rule is asked again. A marked slot is tried; and so is each, where somebody stands
// before me: anybody can wipe a mark, and whether he could start decides whether I go before him. A trial lock that succeeds is
// kept until the pass ends, because it is the very lock a taker wants next. Of a sharer it is known what he says on his berth
// (share_terms.hpp). Until inform() nothing else is known of a holder: not whose he is, nor an end.
#pragma once

#include <optional>
#include <vector>

#include "host/claims/claim_directory.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/notes.hpp"
#include "host/claims/share_terms.hpp"
#include "host/claims/who_file.hpp"

namespace thole::host {

// A berth that is held: 0 exclusively, k + 1 berth k.
struct HeldBerth {
  // By bytes alone strangers keep a berth, and nobody can take it. Missed is one that is taken by what is said on the unit's
  // node and not locked: its own was deleted or replaced under its holder, or a stranger says so.
  enum class By { lock, bytes, missed };
  unsigned berth = 0;
  std::optional<ShareTerms> terms = {};
  By by = By::lock;
};

// Who keeps it from sharers, in words. May ask the network for a name.
struct BerthKeeper {
  Fd node;                               // of the berth; of the unit where it is missed
  HeldBerth::By by;

  BerthKeeper(const ClaimDirectory& nodes, unsigned slot, const HeldBerth& held);
  std::string in_words() const;
};

// One of whom nothing is known: for whoever shares the unit is full.
inline model::SlotHolder somebody() {
  return {.uid = static_cast<std::uint32_t>(-1), .shared = true, .memory_mib = {}, .until = {}};
}

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

  // Those of a slot that was tried.
  const std::vector<HeldBerth>& held_berths(unsigned slot) const { return held_[slot]; }

  // Tries one slot (again), whatever its bits say.
  void look_again(std::vector<model::SlotView>& views, unsigned slot);

  Fd kept(unsigned slot) { return std::move(kept_[slot]); }   // the exclusive trial lock, if there is one
  void drop(unsigned slot) { kept_[slot].reset(); }

  // Who took a berth that is held; unset where the kernel's list is cut off before it.
  std::optional<Taker> taker_of(unsigned slot, unsigned berth);

  enum class Held { no, exclusively, by_sharers };
  Held try_slot(unsigned slot);                              // keeps the lock when it is free
  std::vector<HeldBerth> live_berths(unsigned slot);

 private:
  void add_holders(model::SlotView& view, unsigned slot, Held held);
  void show_holders(model::SlotView& view, unsigned slot);
  model::SlotHolder holder_of(unsigned slot, const HeldBerth& held);
  std::optional<HeldBerth> held_berth(unsigned slot, unsigned k, int unit);

  const ClaimDirectory& directory_;
  WhoFile& who_;
  std::array<Fd, model::max_slots> kept_;
  std::array<std::vector<HeldBerth>, model::max_slots> held_;
  const NoteBook* notes_ = nullptr;
  uid_t me_ = 0;
  WallTime now_{};
  std::optional<KernelLocks> locks_;
  Allowance to_read_terms_{under_alloc};   // anybody can lock any number of bytes
};

}  // namespace thole::host
