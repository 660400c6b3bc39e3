// One pass of a waiter, from alloc to claim or sleep. The overview is in fifo_store.hpp.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/safe_gpu_lock.hpp"

namespace thole::host {
namespace {

constexpr Millis look_again_after{2000};
constexpr Millis restless_look_after{10};
constexpr Millis grace{1000};                 // able to start for so long and not started: stopped
constexpr Seconds stopped_is_believed{10};
constexpr Millis neighbours_patience{3000};   // safe-gpu asks nvidia-smi three times, and makes its contexts
constexpr unsigned asks = 64 + model::max_slots;

WallTime wall_now() { return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()); }
SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

std::string last_part(const std::string& id) { return id.substr(id.rfind('/') + 1); }

}  // namespace

// What one pass works on; made under alloc, gone before alloc is left.
struct FifoPlace::Pass {
  explicit Pass(FifoStore& store)
      : section(store), nodes(store.nodes()), queue(store.queue()), who(nodes.who()), look(nodes, who), view(store.view()), now(wall_now()) {}

  Section section;
  ClaimDirectory& nodes;
  QueueFile& queue;
  WhoFile who;
  SlotLook look;
  model::QueueView& view;
  WallTime now;
  model::SlotSet wanted;

  const Ticket* find(std::uint64_t number) const {
    for (const Ticket& ticket : queue.tickets())
      if (ticket.view.number == number) return &ticket;
    return nullptr;
  }
  bool alive(const Ticket& ticket) const {
    Fd turn = nodes.open_turn(ticket.place, O_RDWR);
    return turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
};

FifoPlace::FifoPlace(FifoStore& store, port::Entry entry) : store_(store), maker_(store.me().pid), entry_(std::move(entry)) {}

FifoPlace::~FifoPlace() {
  if (!turn_ || static_cast<std::uint32_t>(::getpid()) != maker_) return;
  std::optional<Turn> left;
  try {
    Pass pass(store_);
    pass.queue.read();
    leave(pass, left);
  } catch (const Error&) {
    // Then the ticket stays as one of the dead, which the next who meets it drops.
  }
}

std::optional<port::Claim> FifoPlace::step(const model::Rule& rule) {
  if (static_cast<std::uint32_t>(::getpid()) != maker_)
    throw Error(ErrorCode::internal, "a place in line cannot be used by a child of its process");
  for (unsigned restart = 0; restart < 5; ++restart) {
    std::optional<port::Claim> claim;
    std::optional<Turn> left;   // closed after alloc is left: that wakes the next in line
    Outcome outcome = try_step(rule, claim, left);
    if (outcome != Outcome::moved) {
      // Won by the clock alone? Then neither a watch nor the mailbox tells of what made it possible. (HUP may come some us
      // after the unlock, and the clock may have run out just as it came.)
      bool told = left && readable(left->fd.get());
      if (claim && last_wake_ == port::Wake::again && !excused_ && !told && !watches_.any_event(Millis(20))) ++progress_by_timeout_;
      return claim;
    }
    turn_.reset();
    first_ticket_.reset();   // another directory, another line
    watches_ = {};
    store_.reopen();
  }
  throw Error(ErrorCode::unavailable, "the state directory keeps being replaced").about(store_.about().directory);
}

FifoPlace::Outcome FifoPlace::try_step(const model::Rule& rule, std::optional<port::Claim>& claim, std::optional<Turn>& left) {
  // Before alloc: it may take a while, and only safe-gpu's users are to wait for us meanwhile.
  SafeGpuLock neighbours(store_.options().neighbours, neighbours_patience, [this](const std::string& text) { store_.caution(text); });
  Pass pass(store_);
  pass.nodes.refresh_slots();
  eligible_ = store_.slots_of(entry_.eligible);
  look_at_queue(pass);
  restless_ = false;
  for (unsigned ask = 0; ask < asks; ++ask) {
    show_queue(pass);
    decision_ = rule(pass.view, turn_ ? std::optional(turn_->ticket.view.number) : std::nullopt, pass.now);
    Outcome outcome = Outcome::done;
    if (auto* decided = std::get_if<model::Take>(&decision_)) outcome = take(pass, model::Take(*decided), claim, left);
    else if (auto* waiting = std::get_if<model::Wait>(&decision_)) outcome = wait(pass, *waiting);
    else leave(pass, left);
    if (outcome != Outcome::again) {
      pass.who.write_mask();
      return outcome;
    }
  }
  decision_ = model::Wait{};
  restless_ = true;
  return Outcome::done;
}

void FifoPlace::look_at_queue(Pass& pass) {
  pass.queue.read();
  if (turn_) {
    turn_->ticket.view.eligible = eligible_;
    const Ticket* mine = pass.find(turn_->ticket.view.number);
    bool same = mine && mine->place == turn_->ticket.place && mine->pid == turn_->ticket.pid && mine->view.eligible == eligible_;
    // Somebody has overwritten my ticket: it goes back to its place, with its number.
    if (!same && !pass.queue.write(turn_->ticket)) store_.caution("the disk is full: waiting without order");
    excused_ = excused_ || !same;
  }
  pass.wanted = eligible_;
  for (const Ticket& ticket : pass.queue.tickets()) pass.wanted |= ticket.view.eligible;
  pass.who.read_mask();
  if (entry_.shared) pass.look.ask_kernel_for_uids();
  pass.look.fill(pass.view.slots, pass.wanted, last_wake_ == port::Wake::again);
}

void FifoPlace::show_queue(Pass& pass) {
  pass.view.tickets.clear();
  for (const Ticket& ticket : pass.queue.tickets()) {
    // A forged ticket with my number would be taken for mine.
    if (turn_ && ticket.view.number == turn_->ticket.view.number && ticket.place != turn_->ticket.place) continue;
    pass.view.tickets.push_back(ticket.view);
    if (!stopped_.empty()) pass.view.tickets.back().stopped = is_stopped(ticket.view);
  }
}

bool FifoPlace::drop_dead(Pass& pass) {
  std::vector<unsigned> dead;
  for (const Ticket& ticket : pass.queue.tickets()) {
    if (turn_ && ticket.place == turn_->ticket.place) continue;
    if (!pass.alive(ticket)) dead.push_back(ticket.place);
  }
  for (unsigned place : dead) pass.queue.wipe(place);
  return !dead.empty();
}

// ---- Take ----

FifoPlace::Outcome FifoPlace::take(Pass& pass, const model::Take& decision, std::optional<port::Claim>& claim,
                                   std::optional<Turn>& left) {
  if (overtakes_the_dead(pass)) return Outcome::again;
  claim.emplace();
  claim->id = entry_.id;
  std::vector<unsigned> places;
  for (unsigned slot : decision.slots) {
    if (slot >= pass.view.slots.size() || !eligible_.test(slot)) throw Error(ErrorCode::internal, "the rule took a slot not asked for");
    if (lock_slot(pass, slot, *claim, places)) continue;
    claim.reset();
    if (!pass.nodes.state().current()) return Outcome::moved;
    pass.look.look_again(pass.view.slots, slot);
    return Outcome::again;
  }
  store_.hook("slots locked");
  for (Fd& lock : pass.nodes.state().hold()) claim->locks.push_back(std::move(lock));
  // Only now: with the directory's own locks held, nobody replaces it after this look.
  if (!pass.nodes.state().current()) {
    claim.reset();
    return Outcome::moved;
  }
  write_notes(pass, decision, places);
  store_.hook("noted");
  nudge(pass, decision.nudge);
  leave(pass, left);
  store_.hook("left");
  return Outcome::done;
}

// Locks one slot for the claim; false when it is taken after all. Adds the place of its note.
bool FifoPlace::lock_slot(Pass& pass, unsigned slot, port::Claim& claim, std::vector<unsigned>& places) {
  Fd lock = pass.look.kept(slot);
  if (entry_.shared) lock.reset();  // never converted: a failed conversion would lose the lock
  if (!lock) {
    lock = pass.nodes.open_gpu(slot, O_RDWR);
    if (!lock) {
      if (!pass.nodes.state().current()) return false;
      pass.nodes.gpu_is_missing(slot);
    }
    if (::flock(lock.get(), (entry_.shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      throw Error(ErrorCode::unavailable, "cannot lock").about(pass.nodes.slots()[slot]).because(errno);
    }
  }
  if (!pass.nodes.is_node(lock.get())) {
    if (!pass.nodes.state().current()) return false;
    throw Error(ErrorCode::unavailable, "this lock was replaced while it was taken").about(pass.nodes.slots()[slot]).hint(
        "sudo thole init");
  }
  unsigned place = 0;
  if (entry_.shared) {
    Fd share;
    for (unsigned k = 0; k < model::share_places && !share; ++k) {
      Fd node = pass.nodes.open_share(slot, k, O_RDWR, true);
      if (!node || ::flock(node.get(), LOCK_EX | LOCK_NB) != 0) continue;
      share = std::move(node);
      place = k + 1;
    }
    if (!share) return false;
    claim.locks.push_back(std::move(share));
  }
  claim.keys.push_back(pass.nodes.slots()[slot]);
  claim.locks.push_back(std::move(lock));
  places.push_back(place);
  return true;
}

void FifoPlace::write_notes(Pass& pass, const model::Take& decision, const std::vector<unsigned>& places) {
  HolderNote note;
  note.id = last_part(entry_.id);
  note.command = entry_.command;
  note.process = store_.me();
  note.since = pass.now;
  if (entry_.time) note.until = pass.now + *entry_.time;
  note.memory_mib = entry_.memory_mib;
  note.shared = entry_.shared;
  note.share_with_any = entry_.share_with_any;
  if (!pass.who.write(note, decision.slots, places, pass.nodes.slots()))
    store_.caution("the disk is full: who holds what is not recorded");
}

// A rule that lets me go before an earlier ticket has reckoned with it: then it must live.
bool FifoPlace::overtakes_the_dead(Pass& pass) {
  std::uint64_t mine = turn_ ? turn_->ticket.view.number : largest_ticket;
  for (const Ticket& ticket : pass.queue.tickets()) {
    if (ticket.view.number >= mine || (ticket.view.eligible & eligible_).none()) continue;
    if (!pass.alive(ticket)) return drop_dead(pass);
  }
  return false;
}

// ---- Wait ----

FifoPlace::Outcome FifoPlace::wait(Pass& pass, const model::Wait& decision) {
  if (!turn_) join(pass);
  Watches watches;
  if (!watch(pass, decision, watches)) return Outcome::again;
  if (decision.behind && behind_is_stopped(pass, decision)) return Outcome::again;
  nudge(pass, decision.nudge);
  if (!pass.nodes.state().current()) return Outcome::moved;
  watches_ = std::move(watches);
  excused_ = decision.observe.any() || !stopped_.empty() || !turn_;
  store_.hook("watching");
  return Outcome::done;
}

// False when something was let go meanwhile: then the rule is asked again.
bool FifoPlace::watch(Pass& pass, const model::Wait& decision, Watches& watches) {
  if (decision.behind && !watch_ticket(pass, *decision.behind, watches)) return false;
  for (std::uint64_t number : decision.follow)
    if (!watch_ticket(pass, number, watches)) return false;
  for (unsigned slot = 0; slot < pass.view.slots.size(); ++slot)
    if (decision.watch.test(slot) && !pass.view.slots[slot].holders.empty() && !watch_slot(pass, slot, watches)) return false;
  return true;
}

bool FifoPlace::watch_ticket(Pass& pass, std::uint64_t number, Watches& watches) {
  const Ticket* ticket = pass.find(number);
  if (!ticket) return false;
  if (watches.add_turn(pass.nodes, ticket->place) == Watches::Seen::held) return true;
  drop_dead(pass);
  return false;
}

bool FifoPlace::watch_slot(Pass& pass, unsigned slot, Watches& watches) {
  Watches::Seen seen = watches.add_gpu(pass.nodes, slot);
  if (pass.view.slots[slot].holders.front().shared)
    for (unsigned place : pass.look.live_share_places(slot))
      if (seen == Watches::Seen::held) seen = watches.add_share(pass.nodes, slot, place);
  if (seen == Watches::Seen::held) return true;
  pass.look.look_again(pass.view.slots, slot);
  return false;
}

bool FifoPlace::behind_is_stopped(Pass& pass, const model::Wait& decision) {
  const Ticket* ticket = pass.find(*decision.behind);
  if (!ticket) return false;
  Stopped stopped{ticket->view.number, ticket->pid, ticket->start, std::nullopt};
  if (last_wake_ == port::Wake::again) {
    stopped_.push_back(stopped);
    if (is_stopped(ticket->view)) return true;
    std::erase_if(stopped_, [&](const Stopped& other) { return other.number == stopped.number; });
  }
  SteadyTime now = steady_now();
  if (!decision.could_start_but_for_behind) {
    suspect_.reset();
  } else if (!suspect_ || suspect_->first != stopped.number) {
    suspect_ = {stopped.number, now};
  } else if (now - suspect_->second >= grace) {  // frozen in another way than by a signal, or in another pid namespace
    stopped.valid_until = now + stopped_is_believed;
    stopped_.push_back(stopped);
    suspect_.reset();
    return true;
  }
  return false;
}

bool FifoPlace::is_stopped(const model::TicketView& ticket) {
  auto found = std::find_if(stopped_.begin(), stopped_.end(), [&](const Stopped& s) { return s.number == ticket.number; });
  if (found == stopped_.end()) return false;
  bool still;
  if (found->valid_until) {
    still = steady_now() < *found->valid_until;
  } else {
    auto process = process_state(static_cast<pid_t>(found->pid));
    still = process && process->start == found->start && (process->state == 'T' || process->state == 't');
  }
  if (!still) stopped_.erase(found);
  return still;
}

Ticket FifoPlace::my_ticket(std::uint64_t number, unsigned place, WallTime since) const {
  Ticket ticket;
  ticket.view.number = number;
  ticket.view.uid = store_.me().uid;
  ticket.view.eligible = eligible_;
  ticket.view.count = entry_.count;
  ticket.view.shared = entry_.shared;
  ticket.view.share_with_any = entry_.share_with_any;
  ticket.view.trust_claims = entry_.trust_claims;
  ticket.view.memory_mib = entry_.memory_mib;
  ticket.view.time = entry_.time;
  ticket.view.since = since;
  ticket.place = place;
  ticket.pid = store_.me().pid;
  ticket.start = store_.me().start;
  return ticket;
}

void FifoPlace::join(Pass& pass) {
  for (bool swept = false;; swept = true) {
    for (unsigned place : pass.queue.empty_places()) {
      // No reader at all may be left: a watcher of its last owner that has not polled yet would miss that one's end.
      if (pass.nodes.open_turn(place, O_WRONLY, true) || errno != ENXIO) continue;
      Fd turn = pass.nodes.open_turn(place, O_RDWR);
      if (!turn || ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0 || !pass.nodes.is_node(turn.get())) continue;
      Ticket ticket = first_ticket_ ? my_ticket(first_ticket_->view.number, place, first_ticket_->view.since)
                                    : my_ticket(pass.queue.next_number(), place, pass.now);
      if (!pass.queue.write(ticket)) {
        store_.caution("the disk is full: waiting without order");
        return;
      }
      first_ticket_ = ticket;
      turn_ = Turn{std::move(turn), std::move(ticket)};
      store_.hook("joined");
      return;
    }
    if (swept || !drop_dead(pass)) break;
  }
  store_.caution("all " + std::to_string(turn_places) + " waiting places are taken: waiting without order");
}

void FifoPlace::leave(Pass& pass, std::optional<Turn>& left) {
  if (!turn_) return;
  const Ticket* mine = pass.find(turn_->ticket.view.number);
  if (mine && mine->place == turn_->ticket.place) pass.queue.wipe(turn_->ticket.place);
  left = std::move(turn_);
  turn_.reset();
}

void FifoPlace::nudge(Pass& pass, const std::vector<std::uint64_t>& numbers) const {
  for (std::uint64_t number : numbers) {
    const Ticket* ticket = pass.find(number);
    if (!ticket || (turn_ && ticket->place == turn_->ticket.place)) continue;
    // Open for reading too: a write without a reader would be a SIGPIPE for us.
    Fd mailbox = pass.nodes.open_turn(ticket->place, O_RDWR);
    if (mailbox) (void)!::write(mailbox.get(), "!", 1);
  }
}

// ---- Sleep ----

port::Wake FifoPlace::sleep(std::span<const int> also, std::optional<SteadyTime> deadline) {
  std::vector<pollfd> polled;
  for (int fd : also) polled.push_back({fd, POLLIN, 0});
  watches_.append_to(polled);
  if (turn_) polled.push_back({turn_->fd.get(), POLLIN, 0});
  SteadyTime again = steady_now() + (restless_ ? restless_look_after : look_again_after);
  bool ends = deadline && *deadline <= again;
  for (;;) {
    auto left = std::chrono::ceil<Millis>((ends ? *deadline : again) - steady_now());
    int ready = ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (ready == 0) return last_wake_ = ends ? port::Wake::deadline : port::Wake::again;
    if (ready > 0) break;
  }
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    if (i < also.size()) return last_wake_ = port::Wake::other_fd;
    if (i < also.size() + watches_.size()) return last_wake_ = watches_.kind(i - also.size());
  }
  char bytes[64];
  while (::read(turn_->fd.get(), bytes, sizeof bytes) > 0) {}
  return last_wake_ = port::Wake::nudge;
}

}  // namespace thole::host
