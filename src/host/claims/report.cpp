// Who holds what and who waits, for `status` and `why`: the kernel's locks first, the notes only where they agree with it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/error.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

// A lock that is held, before anybody is named.
struct HeldLock {
  unsigned slot, place;
  std::vector<pid_t> lockers;   // by the kernel; empty in another pid namespace
};

// Exact: trial locks, under alloc.
std::vector<HeldLock> try_all(FifoStore& store) {
  std::vector<HeldLock> held;
  Section section(store);
  ClaimDirectory& nodes = store.nodes();
  nodes.refresh_slots();
  WhoFile who(nodes.who());
  SlotLook look(nodes, who);
  std::vector<KernelLock> locks = kernel_locks();  // under alloc: no trial lock of anybody is among them
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    if (nodes.slots()[slot].empty()) continue;
    SlotLook::Held state = look.try_slot(slot);
    if (state == SlotLook::Held::exclusively)
      held.push_back({slot, 0, lockers_of(locks, nodes.open_gpu(slot, O_RDONLY).get())});
    if (state == SlotLook::Held::by_sharers)
      for (unsigned place : look.live_share_places(slot))
        held.push_back({slot, place + 1, lockers_of(locks, nodes.open_share(slot, place, O_RDONLY).get())});
    look.drop(slot);
  }
  return held;
}

// When alloc cannot be had: what /proc/locks says.
std::vector<HeldLock> read_only_view(ClaimDirectory& nodes) {
  std::vector<HeldLock> held;
  std::vector<KernelLock> locks = kernel_locks();
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    if (nodes.slots()[slot].empty()) continue;
    bool shared = false;
    for (unsigned place = 0; place < model::share_places; ++place) {
      auto pids = lockers_of(locks, nodes.open_share(slot, place, O_RDONLY).get());
      if (!pids.empty()) held.push_back({slot, place + 1, pids});
      shared = shared || !pids.empty();
    }
    auto pids = lockers_of(locks, nodes.open_gpu(slot, O_RDONLY).get());
    if (!shared && !pids.empty()) held.push_back({slot, 0, pids});
  }
  return held;
}

model::Holding holding_of(const HeldLock& lock, const ClaimDirectory& nodes, const WhoFile& who, const ProcessIdentity& me) {
  model::Holding holding;
  holding.key = nodes.slots()[lock.slot];
  holding.held = true;
  holding.shared = lock.place != 0;
  auto note = who.read(lock.slot, lock.place, holding.key);
  pid_t taker = lock.lockers.empty() ? 0 : lock.lockers.front();
  auto process = taker > 0 ? process_state(taker) : std::nullopt;
  if (note) {
    holding.id = note->id;
    holding.since = note->since;
    holding.until = note->until;
    holding.command = note->command;
    holding.share_with_any = note->share_with_any;
    holding.uid = note->process.uid;
    holding.pid = static_cast<pid_t>(note->process.pid);
    if (note->memory_mib != 0) holding.memory_mib = note->memory_mib;
    // The taker may be gone while a child of it holds on; then only the pid can agree.
    bool same_process = !process || process->start == note->process.start;
    holding.verified = taker != 0 && taker == holding.pid && note->process.boot == me.boot && same_process;
  }
  if (taker != 0 && !holding.verified) {  // the kernel knows better than a note that does not match
    holding.id.clear();
    holding.pid = taker;
  }
  if (process && (!note || process->start == note->process.start || !holding.verified)) holding.uid = process->uid;
  return holding;
}

// Claims that are over while the process they were made for still runs: nobody holds the slot, somebody uses it.
void add_overdue(std::vector<model::Holding>& holdings, const ClaimDirectory& nodes, const WhoFile& who,
                 const ProcessIdentity& me) {
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    const std::string& key = nodes.slots()[slot];
    auto is_held = [&](const model::Holding& held) { return held.key == key; };
    if (key.empty() || std::any_of(holdings.begin(), holdings.end(), is_held)) continue;
    for (unsigned place = 0; place < who_places; ++place) {
      const auto note = who.read(slot, place, key);
      if (!note || !note->overdue || !lives(note->process, me.boot)) continue;
      model::Holding holding;
      holding.key = key;
      holding.id = note->id;
      holding.overdue = holding.verified = true;
      holding.uid = note->process.uid;
      holding.pid = static_cast<pid_t>(note->process.pid);
      holding.since = note->since;
      holding.until = note->until;
      holding.command = note->command;
      holdings.push_back(std::move(holding));
    }
  }
}

// The mailboxes of those whose promises a changed end of these slots changes: of the waiters that want one of them the first
// one that can act, and any stopped one before it. Whoever is woken and cannot start wakes every later one that can
// (plan/turn.cpp), also those behind it for other slots.
std::vector<Fd> concerned(const ClaimDirectory& nodes, QueueFile& queue, const model::SlotSet& slots) {
  std::vector<Fd> mailboxes;
  queue.read();
  for (const Ticket& ticket : queue.tickets()) {
    if ((ticket.view.eligible & slots).none()) continue;
    Fd turn = nodes.open_turn(ticket.place, O_RDWR);
    const bool alive = turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0;
    if (!alive) continue;
    mailboxes.push_back(std::move(turn));
    const auto process = process_state(static_cast<pid_t>(ticket.pid));
    if (process && process->state != 'T' && process->state != 't') break;
  }
  return mailboxes;
}

}  // namespace

std::vector<model::Holding> FifoStore::holdings() {
  adopt_after_fork();
  if (!nodes_->state().current()) reopen();
  std::vector<HeldLock> held;
  try {
    held = try_all(*this);
  } catch (const Error& stuck) {
    if (stuck.code() != ErrorCode::unavailable) throw;
    caution(stuck.full());
    held = read_only_view(*nodes_);
  }
  WhoFile who(nodes_->who());
  std::map<uid_t, std::string> names;
  std::vector<model::Holding> holdings;
  for (const HeldLock& lock : held) holdings.push_back(holding_of(lock, *nodes_, who, me_));
  add_overdue(holdings, *nodes_, who, me_);
  for (model::Holding& holding : holdings) {
    auto [name, unknown] = names.try_emplace(holding.uid);
    if (unknown && name->first != static_cast<uid_t>(-1)) name->second = user_name(name->first);
    holding.user = name->second;
  }
  return holdings;
}

std::vector<model::Waiting> FifoStore::waiting() {
  adopt_after_fork();
  std::vector<Ticket> tickets;
  std::optional<Section> section;
  try {
    section.emplace(*this);
  } catch (const Error& stuck) {
    if (stuck.code() != ErrorCode::unavailable) throw;
    caution(stuck.full());
  }
  QueueFile queue(nodes_->queue());
  queue.read();
  std::vector<KernelLock> locks = kernel_locks();
  std::vector<model::Waiting> waiting;
  for (const Ticket& ticket : queue.tickets()) {
    Fd turn = nodes_->open_turn(ticket.place, O_RDWR);
    std::vector<pid_t> pids = lockers_of(locks, turn.get());
    bool alive = section ? turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0 : !pids.empty();
    if (!alive) continue;
    model::Waiting line;
    line.ticket = ticket.view.number;
    line.pid = pids.empty() ? static_cast<pid_t>(ticket.pid) : pids.front();
    auto process = pids.empty() ? std::nullopt : process_state(line.pid);
    line.uid = process ? process->uid : ticket.view.uid;
    for (unsigned slot = 0; slot < model::max_slots; ++slot)
      if (ticket.view.eligible.test(slot) && !nodes_->slots()[slot].empty()) line.eligible.push_back(nodes_->slots()[slot]);
    line.count = ticket.view.count;
    line.shared = ticket.view.shared;
    if (ticket.view.shared) line.memory_mib = ticket.view.memory_mib;
    line.time = ticket.view.time;
    line.leave = ticket.view.leave;
    line.since = ticket.view.since;
    line.mine = line.uid == ::geteuid();
    waiting.push_back(std::move(line));
  }
  section.reset();
  for (model::Waiting& line : waiting) line.user = user_name(line.uid);  // may ask the network: not under alloc
  return waiting;
}

std::vector<pid_t> FifoStore::wanted_by(const port::Claim& claim) {
  if (claim.locks.empty()) return {};  // nothing is held here: it would not help them
  adopt_after_fork();
  std::lock_guard lock(threads_);
  QueueFile queue(nodes_->queue());
  queue.read();
  if (queue.tickets().empty()) return {};
  model::SlotSet held;
  for (const std::string& key : claim.keys)
    if (auto slot = nodes_->slot_of(key)) held.set(*slot);
  std::vector<pid_t> waiters;
  for (const Ticket& ticket : queue.tickets())
    if ((ticket.view.eligible & held).any()) waiters.push_back(static_cast<pid_t>(ticket.pid));
  return waiters;
}

void FifoStore::amend(const port::Claim& claim, std::optional<WallTime> until, std::optional<pid_t> overdue) {
  std::string id = claim.id.substr(claim.id.rfind('/') + 1);
  std::optional<Section> section(std::in_place, *this);
  WhoFile who(nodes_->who());
  model::SlotSet changed;
  for (const std::string& key : claim.keys) {
    auto slot = nodes_->slot_of(key);
    for (unsigned place = 0; slot && place < who_places; ++place) {
      auto note = who.read(*slot, place, key);
      if (!note || note->id != id) continue;
      if (!overdue) {
        if (note->until != until) changed.set(*slot);
        note->until = until;
      } else {
        note->overdue = true;
        note->process.pid = static_cast<std::uint32_t>(*overdue);
        const auto process = process_state(*overdue);
        note->process.start = process ? process->start : 0;
      }
      who.write(*note, *slot, place, key);
    }
  }
  if (changed.none()) return;
  const std::vector<Fd> mailboxes = concerned(*nodes_, *queue_, changed);
  section.reset();  // whoever wakes would only wait for alloc
  for (const Fd& mailbox : mailboxes) (void)!::write(mailbox.get(), "!", 1);
}

}  // namespace thole::host
