// Carrying out what the rule decided: taking (locks, notes, leaving the line) and waiting (ticket, watches, nudges).
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/announced.hpp"
#include "host/claims/fifo_pass.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// What was opened under this name, but not where it was replaced or deleted since then, or is to be this moment.
std::optional<struct stat> in_force(const ClaimDirectory& nodes, int fd, const std::string& name) {
  auto found = nodes.named(fd, name);
  if (found && (found->st_mode & being_taken) != 0 &&
      is_announced(nodes.state().fd.get(), taking_file, nodes.state().owner))
    found.reset();
  return found;
}

}  // namespace

// ---- Take ----

FifoTicket::Outcome FifoTicket::take(Pass& pass, const model::Take& decision, std::optional<port::Claim>& claim) {
  port::ClaimParts parts;
  parts.id = entry_.id;
  parts.taken_us = boot_clock_us();
  std::vector<LockedSlot> locked;
  alone_.clear();
  for (unsigned slot : decision.slots) {
    if (slot >= pass.view.slots.size() || !wants_.eligible.test(slot))
      throw Error(ErrorCode::internal, "the rule took a slot not asked for");
    if (lock_slot(pass, slot, parts, locked)) continue;
    if (pass.slots_changed || !pass.nodes.state().current()) return Outcome::moved;
    if (pass.section.ordered()) pass.look.look_again(pass.view.slots, slot);
    return Outcome::again;
  }
  store_.hook("slots locked");
  for (Fd& lock : pass.nodes.state().lock_for_claim()) parts.locks.push_back(std::move(lock));
  // Only now: with the directory's own locks held, nobody replaces it after this look.
  if (!pass.nodes.state().current()) return Outcome::moved;
  parts.passed = passed_for(pass, decision.slots);
  write_note(pass, decision, locked, parts);
  claim.emplace(port::Claim::State::held, std::move(parts));
  store_.hook("noted");
  if (pass.section.ordered()) nudge(pass, decision.nudge);
  if (entry_.shared) return Outcome::done;   // in line until it is certain (still_admitted): nobody follows one who comes back
  step_out(pass);
  store_.hook("left");
  return Outcome::done;
}

// Whoever takes a ticket before mine from now on has not been passed: one who gives back what he had goes on where he stood.
std::vector<std::uint64_t> FifoTicket::passed_for(Pass& pass, const std::vector<unsigned>& slots) {
  if (!pass.section.ordered()) pass.queue.read();
  model::SlotSet taken;
  for (unsigned slot : slots) taken.set(slot);
  std::vector<std::uint64_t> passed;
  for (const WrittenTicket& ticket : pass.queue.tickets()) {
    if (turn_ && ticket.view.number >= turn_->ticket.view.number) break;
    if ((ticket.view.eligible & taken).any()) passed.push_back(ticket.view.number);
  }
  return passed;
}

// Locks one slot for the claim; false when it is taken after all. Adds what its note says of it.
bool FifoTicket::lock_slot(Pass& pass, unsigned slot, port::ClaimParts& claim, std::vector<LockedSlot>& locked) {
  Fd lock = pass.look.kept(slot);
  unsigned berth = 0;
  Fd share = entry_.shared ? take_berth(pass, slot, static_cast<bool>(lock), berth) : Fd();
  if (share) lock.reset();  // never converted: a failed conversion would lose the lock
  if (!lock) {
    lock = pass.nodes.open_gpu(slot, O_RDWR);
    if (!lock) {
      pass.slots_changed = pass.nodes.refresh_slots();
      if (pass.slots_changed || !pass.nodes.state().current()) return false;
      pass.nodes.gpu_is_missing(slot);
    }
    if (::flock(lock.get(), (share ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      throw Error(ErrorCode::unavailable, "cannot lock").about(pass.nodes.slots()[slot]).because(errno);
    }
    if (share && !say_taken(lock.get(), berth - 1)) return false;
  }
  const auto found = in_force(pass.nodes, lock.get(), pass.nodes.gpu_name(slot));
  if (!found) return false;   // what has its name now is asked for next
  if (!pass.nodes.is_node(*found)) pass.nodes.gpu_is_no_lock(slot);
  pass.nodes.accept(found->st_ino, slot);
  claim.keys.push_back(pass.nodes.slots()[slot]);
  // At every death the berth goes first, as its number is higher: nobody keeps one of a unit that nobody has.
  if (share && !(share = moved_above(std::move(share), lock.get())))
    throw Error(ErrorCode::unavailable, "cannot lock").about(pass.nodes.slots()[slot]).because(errno);
  settle_number(lock.get());
  locked.push_back({berth, node_number_of(lock.get())});
  claim.locks.push_back(std::move(lock));
  if (share) claim.locks.push_back(std::move(share));
  return true;
}

// A sharer's berth on a unit, and on it what he says of his share. Anybody can keep some: who has one of a unit that nobody has
// is no sharer, and nobody could sit there for certain; so a sharer takes that unit for himself.
Fd FifoTicket::take_berth(Pass& pass, unsigned slot, bool nobody_has_it, unsigned& berth) {
  const std::vector<HeldBerth> kept = nobody_has_it ? pass.look.live_berths(slot) : pass.look.held_berths(slot);
  if (nobody_has_it && (!kept.empty() || not_shared_.test(slot))) {
    auto& [key, keeper] = alone_.emplace_back(pass.nodes.slots()[slot], std::nullopt);
    if (!kept.empty()) keeper.emplace(pass.nodes, slot, kept.front());
    return Fd();
  }
  const ShareTerms terms{number_of_claim(last_part(entry_.id)), entry_.share_with_any, entry_.memory_mib};
  for (unsigned k = 0; k < model::share_berths; ++k) {
    if (std::ranges::find(kept, k + 1, &HeldBerth::berth) != kept.end()) continue;
    Fd node = pass.nodes.open_share(slot, k, O_RDWR, true);
    if (node) store_.hook("share opened");
    if (!node || ::flock(node.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (!in_force(pass.nodes, node.get(), share_node(pass.nodes.slots()[slot], k))) continue;
    if (!say_terms(node.get(), terms)) {
      if (errno == EAGAIN || errno == EACCES) continue;   // somebody's bytes
      throw Error(ErrorCode::unavailable, "cannot lock").about(share_node(pass.nodes.slots()[slot], k)).because(errno);
    }
    berth = k + 1;
    return node;
  }
  return Fd();
}

// May ask the network for a name: not under alloc.
void FifoTicket::say_who_keeps_berths() {
  for (const auto& [key, keeper] : std::exchange(alone_, {}))
    caution(key + " is yours alone: places for sharers are kept there, though nobody shares it: " +
            (keeper ? keeper->in_words() : "somebody locks bytes of them for moments"));
}

void FifoTicket::write_note(Pass& pass, const model::Take& decision, const std::vector<LockedSlot>& locked,
                            port::ClaimParts& claim) {
  Note note;
  note.id = last_part(entry_.id);
  note.command = entry_.command;
  note.process = store_.me();
  note.since = pass.now;
  if (entry_.time) note.until = pass.now + *entry_.time;
  note.memory_mib = entry_.shared ? entry_.memory_mib : 0;
  note.shared = entry_.shared;
  note.share_with_any = entry_.share_with_any;
  int highest = -1;
  for (const Fd& lock : claim.locks) highest = std::max(highest, lock.get());
  for (std::size_t i = 0; i < decision.slots.size(); ++i) {
    pass.who.note(decision.slots[i]);
    note.put(decision.slots[i], locked[i].berth, locked[i].node);
  }
  Fd live = store_.note(note, highest);
  if (live) {
    claim.locks.add_note(std::move(live));
  } else if (entry_.shared) {
    throw Error(ErrorCode::unavailable, "no note can be made of this claim, and nothing is shared without one")
        .about(pass.nodes.path() + "/notes").because(errno).hint("claim without --share; thole doctor says what is wrong");
  } else if (entry_.needs_note) {
    throw Error(ErrorCode::unavailable, "no note can be made of this claim, and nothing would find it by its id")
        .about(pass.nodes.path() + "/notes").because(errno).hint("thole doctor says what is wrong");
  } else {
    caution("no note could be made of this claim: what claims inside it is refused, and it is not found by its id");
  }
  shared_.clear();
  for (std::size_t i = 0; i < decision.slots.size() && entry_.shared; ++i)
    shared_.push_back({decision.slots[i], locked[i].berth});
}

// Now that everybody can read of my claim: would the rule put me beside those who are there now? Somebody may have come without
// alloc who saw me no more than I saw him; later than both of our notes one of us looks. (Who comes later has seen me.)
bool FifoTicket::still_admitted(const model::Rule& rule) {
  collect_notes();
  Pass pass(store_, alloc_, [this](const std::string& text) { caution(text); }, entry_.cancel);
  pass.queue.read();
  model::QueueView view;
  view.neighbours_choose = pass.view.neighbours_choose;
  pass.look.fill(view.slots, entry_.leave == 0 ? model::SlotSet() : wants_.eligible, /*try_all=*/true);
  std::vector<unsigned> mine;
  for (const Shared& shared : shared_) {
    if (shared.slot >= view.slots.size()) return false;
    pass.look.look_again(view.slots, shared.slot);
    mine.push_back(shared.slot);
  }
  inform(pass, view.slots);
  for (unsigned slot = 0; slot < view.slots.size(); ++slot) {
    const auto own = std::find_if(shared_.begin(), shared_.end(), [&](const Shared& shared) { return shared.slot == slot; });
    auto& holders = view.slots[slot].holders;
    if (own != shared_.end()) {                               // without me
      const auto& held = pass.look.held_berths(slot);
      const auto at = std::ranges::find(held, own->berth, &HeldBerth::berth);
      if (at != held.end()) holders.erase(holders.begin() + (at - held.begin()));
    } else if (entry_.leave == 0) {                           // no other slot is in question
      holders.push_back(somebody());
    }
  }
  const model::Decision decision = rule(view, std::nullopt, wants_, pass.now);
  const auto* take = std::get_if<model::Take>(&decision);
  if (!take || !std::is_permutation(take->slots.begin(), take->slots.end(), mine.begin(), mine.end())) return false;
  step_out(pass);
  store_.hook("left");
  return true;
}

// Out of the line with a claim. Without order the queue is not mine to write to: the ticket is one of the dead then, and
// whoever is inside drops it.
void FifoTicket::step_out(Pass& pass) {
  if (pass.section.ordered()) leave(pass);
  else spent_ = std::exchange(turn_, std::nullopt);
}

// ---- Wait ----

FifoTicket::Outcome FifoTicket::wait(Pass& pass, const model::Wait& decision) {
  if (!turn_ && !heard_line_) return Outcome::unheard;
  if (!turn_) join(pass);
  Watches watches;
  if (!watch(pass, decision, watches)) return Outcome::again;
  if (decision.behind && behind_is_stopped(pass, decision)) return Outcome::again;
  nudge(pass, decision.nudge);
  if (!pass.nodes.state().current()) return Outcome::moved;
  watches_ = std::move(watches);
  excused_ = decision.observe.any() || decision.look_again || !stopped_.empty() || !turn_;
  store_.hook("watching");
  return Outcome::done;
}

// False when something was let go meanwhile: then the rule is asked again.
bool FifoTicket::watch(Pass& pass, const model::Wait& decision, Watches& watches) {
  if (decision.behind && !watch_ticket(pass, *decision.behind, watches)) return false;
  for (std::uint64_t number : decision.follow)
    if (!watch_ticket(pass, number, watches)) return false;
  for (unsigned slot = 0; slot < pass.view.slots.size(); ++slot)
    if (decision.watch.test(slot) && !not_shared_.test(slot) && !pass.view.slots[slot].holders.empty() &&
        !watch_slot(pass, slot, watches))
      return false;
  return true;
}

bool FifoTicket::watch_ticket(Pass& pass, std::uint64_t number, Watches& watches) {
  const WrittenTicket* ticket = said_ticket(pass, number);
  if (!ticket) return false;
  if (watches.add_turn(pass.nodes, ticket->index) == Watches::Seen::held) return true;
  drop_dead(pass);
  return false;
}

bool FifoTicket::watch_slot(Pass& pass, unsigned slot, Watches& watches) {
  Watches::Seen seen = watches.add_gpu(pass.nodes, slot);
  if (pass.view.slots[slot].holders.front().shared)
    for (const HeldBerth& held : pass.look.live_berths(slot))
      if (seen == Watches::Seen::held && held.by == HeldBerth::By::lock)
        seen = watches.add_share(pass.nodes, slot, held.berth - 1);
  if (seen == Watches::Seen::held) return true;
  pass.look.look_again(pass.view.slots, slot);
  return false;
}

// Anybody can write a ticket with another's number: the first that is not known to be said by nobody, if there is one.
const WrittenTicket* FifoTicket::said_ticket(const Pass& pass, std::uint64_t number) const {
  const WrittenTicket* first = nullptr;
  for (const WrittenTicket& ticket : pass.queue.tickets()) {
    if (ticket.view.number != number) continue;
    const auto word = words_.find(ticket.index);
    if (word == words_.end() || word->second.vouched || !says_the_same(word->second.ticket, ticket)) return &ticket;
    if (!first) first = &ticket;
  }
  return first;
}

// Only after the clock alone has woken me: he would have woken me himself.
bool FifoTicket::behind_is_stopped(Pass& pass, const model::Wait& decision) {
  const WrittenTicket* ticket = said_ticket(pass, *decision.behind);
  if (!ticket || last_wake_ != port::Wake::again) return false;
  const auto word = words_.find(ticket->index);
  if (store_.has_words() && (word == words_.end() || !word->second.vouched)) return false;   // who has not been heard: later
  stopped_.push_back({ticket->view.number, ticket->view.uid, ticket->pid, ticket->start});
  return is_stopped(ticket->view);
}

bool FifoTicket::is_stopped(const model::TicketView& ticket) {
  auto found = std::find_if(stopped_.begin(), stopped_.end(), [&](const Stopped& s) {
    return s.number == ticket.number && s.uid == ticket.uid;
  });
  if (found == stopped_.end()) return false;
  const bool still = stands_still(found->pid, found->start);
  if (!still) stopped_.erase(found);
  return still;
}

void FifoTicket::nudge(Pass& pass, const std::vector<std::uint64_t>& numbers) const {
  for (std::uint64_t number : numbers) {
    const WrittenTicket* ticket = said_ticket(pass, number);
    if (!ticket || (turn_ && ticket->index == turn_->ticket.index)) continue;
    // Open for reading too: a write without a reader would be a SIGPIPE for us.
    Fd mailbox = pass.nodes.open_turn(ticket->index, O_RDWR);
    if (mailbox) (void)!::write(mailbox.get(), "!", 1);
  }
}

}  // namespace thole::host
