#include "host/claims/slot_look.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"

namespace thole::host {
namespace {

// A lock that fails for any other reason than being taken is no answer.
bool taken(int fd, int operation, const std::string& path) {
  if (::flock(fd, operation | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  throw Error(ErrorCode::unavailable, "cannot lock").about(path).because(errno);
}

}  // namespace

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

std::vector<unsigned> SlotLook::live_share_places(unsigned slot) const {
  std::vector<unsigned> places;
  for (unsigned place = 0; place < model::share_places; ++place) {
    Fd fd = directory_.open_share(slot, place, O_RDWR);
    if (fd && taken(fd.get(), LOCK_EX, directory_.path())) places.push_back(place);
  }
  return places;
}

std::uint32_t SlotLook::uid_of(int fd, const std::optional<HolderNote>& note) {
  if (!locks_) locks_ = kernel_locks();
  for (pid_t pid : lockers_of(*locks_, fd)) {
    auto process = process_state(pid);
    // The taker may be gone, a child of it hold on, and the pid be somebody else's by now.
    bool used_again = process && note && note->process.pid == static_cast<std::uint32_t>(pid) &&
                      note->process.start != process->start;
    if (process && !used_again) return process->uid;
  }
  return note ? note->process.uid : static_cast<std::uint32_t>(-1);
}

model::SlotHolder SlotLook::holder_of(unsigned slot, unsigned place) {
  model::SlotHolder holder;
  holder.shared = place != 0;
  holder.uid = static_cast<std::uint32_t>(-1);
  const auto note = who_.read(slot, place, directory_.slots()[slot]);
  if (note) {
    holder.uid = note->process.uid;
    holder.share_with_any = note->share_with_any;
    holder.until = note->until;
    if (note->shared && note->memory_mib != 0) holder.memory_mib = note->memory_mib;
  }
  if (ask_kernel_ && place != 0) holder.uid = uid_of(directory_.open_share(slot, place - 1, O_RDONLY).get(), note);
  return holder;
}

void SlotLook::add_holders(model::SlotView& view, unsigned slot, Held held) {
  if (held == Held::exclusively) view.holders.push_back(holder_of(slot, 0));
  if (held != Held::by_sharers) return;
  for (unsigned place : live_share_places(slot)) view.holders.push_back(holder_of(slot, place + 1));
  if (view.holders.empty()) {  // a sharer without a share place, or leaving this moment: unknown, so the unit counts as full
    model::SlotHolder unknown;
    unknown.shared = true;
    unknown.uid = static_cast<std::uint32_t>(-1);
    view.holders.push_back(unknown);
  }
}

void SlotLook::fill(std::vector<model::SlotView>& views, const model::SlotSet& wanted, bool try_all) {
  const SlotKeys& keys = directory_.slots();
  std::size_t used = keys.size();
  while (used > 0 && keys[used - 1].empty()) --used;
  views.resize(used);
  for (unsigned slot = 0; slot < used; ++slot) {
    views[slot].key = keys[slot];
    views[slot].holders.clear();
    if (keys[slot].empty() || !wanted.test(slot) || !(try_all || who_.noted(slot))) continue;
    Held held = try_slot(slot);
    if (held == Held::no) who_.forget(slot);
    else add_holders(views[slot], slot, held);
  }
}

void SlotLook::look_again(std::vector<model::SlotView>& views, unsigned slot) {
  views[slot].holders.clear();
  add_holders(views[slot], slot, try_slot(slot));
}

}  // namespace thole::host
