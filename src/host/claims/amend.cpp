// New ends of claims that live.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/who_file.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// The mailboxes of those whose promises a changed end of these slots changes: of the waiters that want one of them the first
// one that can act, and any stopped one before it. Whoever is woken and cannot start wakes every later one that can
// (plan/turn/turn.cpp), also those behind it for other slots. Who lives is asked by a try to share, as in wanted_by(): it harms
// nobody's look, inside of alloc or not.
std::vector<Fd> concerned(const ClaimDirectory& nodes, const model::SlotSet& slots) {
  std::vector<Fd> mailboxes;
  QueueFile queue(nodes.queue());
  queue.read();
  for (const WrittenTicket& ticket : queue.tickets()) {
    if ((ticket.view.eligible & slots).none()) continue;
    Fd turn = nodes.open_turn(ticket.index, O_RDWR);
    const bool alive = turn && ::flock(turn.get(), LOCK_SH | LOCK_NB) != 0;
    if (!alive) continue;
    mailboxes.push_back(std::move(turn));
    const auto process = process_state(static_cast<pid_t>(ticket.pid));
    if (process && !is_stopped(*process)) break;
  }
  return mailboxes;
}

void wake(const std::vector<Fd>& mailboxes) {
  for (const Fd& mailbox : mailboxes) (void)!::write(mailbox.get(), "!", 1);
}

// Adds the slots whose end is another one then.
std::function<void(Note&)> new_end(std::optional<WallTime> until, model::SlotSet& changed) {
  return [until, &changed](Note& note) {
    if (note.until == until) return;
    note.until = until;
    for (unsigned slot = 0; slot < model::max_slots; ++slot) changed[slot] = note.names(slot);
  };
}

}  // namespace

// The note is its owner's own, and readers meet it whole or not at all: alloc is not asked for it. It only orders the news: who
// joins the line inside of it has read the note as it is now, or has a ticket by then. While somebody keeps alloc, who joins
// this moment may hear of it 2 s later, at his own next look; the claim's keeper, who answers others, waits for nobody.
bool FifoStore::amend(const std::string& id, std::optional<WallTime> until, std::optional<pid_t> overdue) {
  adopt_after_fork();
  model::SlotSet changed;
  const auto over = [&](Note& note) {
    note.overdue = true;
    note.process.pid = static_cast<std::uint32_t>(*overdue);
    const auto process = process_state(*overdue);
    note.process.start = process ? process->start : 0;
  };
  {
    std::lock_guard lock(threads_);
    nodes_->refresh_slots();
    if (overdue) return change_note(last_part(id), over);
    if (!change_note(last_part(id), new_end(until, changed))) return false;
  }
  if (changed.none()) return true;
  try {
    std::optional<Section> section(std::in_place, *this, amendments_, Section::Said{}, std::span<const int>{});
    const std::vector<Fd> mailboxes = concerned(*nodes_, changed);
    section.reset();  // whoever wakes would only wait for alloc
    wake(mailboxes);
  } catch (const Error&) {   // the line is out of reach: the new end is recorded all the same
  }
  return true;
}

std::optional<model::Moment> FifoStore::moment() {
  adopt_after_fork();
  NoteBook notes = this->notes();
  notes.collect();
  Section section(*this, amendments_, Section::Said{}, std::span<const int>{});
  if (!section.ordered()) return std::nullopt;
  return moment_by(notes);
}

// What was decided by that moment is written in the same order in which waiters decide: nobody comes in between.
port::Amended FifoStore::amend_as_of(const model::Moment& moment, const std::string& id, std::optional<WallTime> until) {
  adopt_after_fork();
  NoteBook notes = this->notes();
  notes.collect();
  model::SlotSet changed;
  std::optional<Section> section(std::in_place, *this, amendments_, Section::Said{}, std::span<const int>{});
  if (!section->ordered() || model::holds_longer(moment_by(notes), moment)) return port::Amended::outdated;
  if (!change_note(last_part(id), new_end(until, changed))) return port::Amended::cannot;
  const std::vector<Fd> mailboxes = concerned(*nodes_, changed);
  section.reset();
  wake(mailboxes);
  return port::Amended::recorded;
}

// Under alloc. Each holder with the end that its note declares, where the kernel says that this is the holder's: nobody else
// makes a moment pass by what he writes. A holder whose note lies in a file that was not collected is one without a note here.
model::Moment FifoStore::moment_by(NoteBook& notes) {
  nodes_->refresh_slots();
  notes.read(nodes_->slots());
  WhoFile who(nodes_->who());
  who.read();
  SlotLook look(*nodes_, who);
  std::vector<model::SlotView> slots;
  look.fill(slots, model::SlotSet().set(), /*try_all=*/true);
  who.write();
  model::Moment moment;
  for (unsigned slot = 0; slot < slots.size(); ++slot)
    for (const HeldBerth& held : look.held_berths(slot)) {
      const unsigned berth = held.berth;
      const std::optional<Taker> taker = look.taker_of(slot, berth);
      const Note* note = taker ? is_certainly_of(notes, slot, berth, *taker) : nullptr;
      moment.push_back({slot, berth, note ? note->id : "", note ? note->until : std::nullopt});
    }
  return moment;
}

}  // namespace thole::host
