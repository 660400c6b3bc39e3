// What one pass under alloc finds out about the slots: who holds which, by trial locks and the notes in `who`.
//
// How this works. A slot whose bits in the mask are clear is taken for free without asking the kernel: if it is not, the lock
// says so when the slot is taken, and the rule is asked again. A slot with bits is tried. A trial lock that succeeds is
// kept until the pass ends, because it is the very lock a taker wants next.
#pragma once

#include <optional>
#include <vector>

#include "host/claims/claim_directory.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/who_file.hpp"

namespace thole::host {

class SlotLook {
 public:
  SlotLook(const ClaimDirectory& directory, WhoFile& who) : directory_(directory), who_(who) {}

  // Fills `views` (by slot number) for all named slots, and tries those of `wanted`: with bits in the mask only, or all.
  void fill(std::vector<model::SlotView>& views, const model::SlotSet& wanted, bool try_all = false);

  // Sharers must belong to one user: the uid of each is then asked of the kernel, not of the notes.
  void ask_kernel_for_uids() { ask_kernel_ = true; }

  // Tries one slot (again), whatever its bits say.
  void look_again(std::vector<model::SlotView>& views, unsigned slot);

  Fd kept(unsigned slot) { return std::move(kept_[slot]); }   // the exclusive trial lock, if there is one
  void drop(unsigned slot) { kept_[slot].reset(); }

  enum class Held { no, exclusively, by_sharers };
  Held try_slot(unsigned slot);                              // keeps the lock when it is free
  std::vector<unsigned> live_share_places(unsigned slot) const;

 private:
  void add_holders(model::SlotView& view, unsigned slot, Held held);
  model::SlotHolder holder_of(unsigned slot, unsigned place);
  std::uint32_t uid_of(int fd, const std::optional<HolderNote>& note);

  const ClaimDirectory& directory_;
  WhoFile& who_;
  std::array<Fd, model::max_slots> kept_;
  bool ask_kernel_ = false;
  std::optional<std::vector<KernelLock>> locks_;
};

}  // namespace thole::host
