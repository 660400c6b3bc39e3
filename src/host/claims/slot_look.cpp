#include "host/claims/slot_look.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/same_file.hpp"

namespace thole::host {
namespace {

constexpr unsigned no_berth = model::share_berths + 1;   // of nobody's note

// A lock that fails for any other reason than being taken is no answer.
bool taken(int fd, int operation, const std::string& path) {
  if (::flock(fd, operation | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  throw Error(ErrorCode::unavailable, "cannot lock").about(path).because(errno);
}

}  // namespace

BerthKeeper::BerthKeeper(const ClaimDirectory& nodes, unsigned slot, const HeldBerth& held)
    : node(held.by == HeldBerth::By::missed ? nodes.open_gpu(slot, O_RDONLY)
                                             : nodes.open_share(slot, held.berth - 1, O_RDONLY)),
      by(held.by) {}

std::string BerthKeeper::in_words() const {
  return by == HeldBerth::By::lock ? describe_keeper(node.get()) : describe_byte_locker(node.get());
}

SlotLook::Held SlotLook::try_slot(unsigned slot) {
  if (kept_[slot]) return Held::no;
  Fd fd = directory_.open_gpu(slot, O_RDWR);
  if (!fd) return Held::no;  // deleted: whoever wants this slot is told when he takes it
  if (!taken(fd.get(), LOCK_EX, directory_.path())) {
    kept_[slot] = std::move(fd);
    return Held::no;
  }
  // A shared lock that succeeds says that the others share; it goes with the descriptor, never by conversion.
  return taken(fd.get(), LOCK_SH, directory_.path()) ? Held::exclusively : Held::by_sharers;
}

std::optional<HeldBerth> SlotLook::held_berth(unsigned slot, unsigned k, int unit) {
  const Fd fd = directory_.open_share(slot, k, O_RDWR);
  const bool in_time = !to_read_terms_.over();
  if (fd && taken(fd.get(), LOCK_EX, directory_.path()))
    return HeldBerth{k + 1, in_time ? terms_on(fd.get()) : std::nullopt};
  if (fd && (!in_time || says_anything(fd.get()))) return HeldBerth{k + 1, std::nullopt, HeldBerth::By::bytes};
  if (!in_time || is_said_taken(unit, k)) return HeldBerth{k + 1, std::nullopt, HeldBerth::By::missed};
  return std::nullopt;
}

std::vector<HeldBerth> SlotLook::live_berths(unsigned slot) {
  std::vector<HeldBerth> berths;
  const Fd unit = directory_.open_gpu(slot, O_RDONLY);
  if (!unit && says_absent(errno)) return berths;   // deleted: whoever would share it is told so
  for (unsigned k = 0; k < model::share_berths; ++k)
    if (const auto held = held_berth(slot, k, unit.get())) berths.push_back(*held);
  return berths;
}

model::SlotHolder SlotLook::holder_of(unsigned slot, const HeldBerth& held) {
  model::SlotHolder holder = somebody();
  holder.shared = held.berth != 0;
  holder.share_with_any = held.terms && held.terms->with_any;
  if (held.terms) holder.memory_mib = held.terms->memory_mib;
  if (!notes_) return holder;
  // A note may live longer than the lock that it speaks of: of a share it counts only where the berth says the same claim.
  const auto is_of_this = [&](const Note& note) {
    return !holder.shared || (held.terms && held.terms->claim == number_of_claim(note.id));
  };
  const Note* note = notes_->believed(slot, held.berth, me_, is_of_this);
  if (!note && notes_->naming(slot, held.berth).size() < 2) return holder;
  const Note* certain = nullptr;
  if (!note || note->until) {                    // the kernel's list is long where many wait
    const std::optional<Taker> taker = taker_of(slot, held.berth);
    if (taker) certain = is_certainly_of(*notes_, slot, held.berth, *taker);
  }
  if (!note) note = certain;                     // anybody can name any berth in his
  if (!note) return holder;
  holder.uid = note->process.uid;
  if (note == certain) holder.until = model::counted_end(note->until, now_);   // others plan with it
  return holder;
}

std::optional<Taker> SlotLook::taker_of(unsigned slot, unsigned berth) {
  if (!locks_) locks_ = kernel_locks(under_alloc);
  Fd node = berth == 0 ? directory_.open_gpu(slot, O_RDONLY) : directory_.open_share(slot, berth - 1, O_RDONLY);
  const auto lockers = told_lockers_of(*locks_, node.get());
  return lockers ? std::optional(taker_among(*lockers)) : std::nullopt;
}

void SlotLook::add_holders(model::SlotView& view, unsigned slot, Held held) {
  held_[slot].clear();
  if (held == Held::exclusively) held_[slot] = {HeldBerth{}};
  if (held == Held::by_sharers) {
    held_[slot] = live_berths(slot);
    // A sharer without a berth, or leaving this moment: unknown, so the unit counts as full.
    if (held_[slot].empty()) held_[slot] = {HeldBerth{no_berth}};
  }
  show_holders(view, slot);
}

void SlotLook::show_holders(model::SlotView& view, unsigned slot) {
  view.holders.clear();
  for (const HeldBerth& held : held_[slot]) view.holders.push_back(holder_of(slot, held));
}

void SlotLook::inform(std::vector<model::SlotView>& views, const NoteBook& notes, uid_t me, WallTime now) {
  notes_ = &notes;
  me_ = me;
  now_ = now;
  for (unsigned slot = 0; slot < views.size(); ++slot) show_holders(views[slot], slot);
}

bool SlotLook::any_unknown(const std::vector<model::SlotView>& views) const {
  return std::any_of(views.begin(), views.end(), [](const model::SlotView& slot) {
    return std::any_of(slot.holders.begin(), slot.holders.end(),
                       [](const model::SlotHolder& holder) { return holder.uid == static_cast<std::uint32_t>(-1); });
  });
}

bool SlotLook::any_held() const {
  return std::any_of(held_.begin(), held_.end(), [](const auto& berths) { return !berths.empty(); });
}

void SlotLook::fill(std::vector<model::SlotView>& views, const model::SlotSet& wanted, bool try_all) {
  const SlotKeys& keys = directory_.slots();
  std::size_t used = keys.size();
  while (used > 0 && keys[used - 1].empty()) --used;
  views.resize(used);
  for (unsigned slot = 0; slot < used; ++slot) {
    views[slot].key = keys[slot];
    views[slot].holders.clear();
    held_[slot].clear();
    if (keys[slot].empty() || !wanted.test(slot) || !(try_all || who_.noted(slot))) continue;
    Held held = try_slot(slot);
    if (held == Held::no) {
      who_.forget(slot);
    } else {
      who_.note(slot);                           // where somebody has wiped it, or it was taken without order
      add_holders(views[slot], slot, held);
    }
  }
}

void SlotLook::look_again(std::vector<model::SlotView>& views, unsigned slot) {
  add_holders(views[slot], slot, try_slot(slot));
}

}  // namespace thole::host
