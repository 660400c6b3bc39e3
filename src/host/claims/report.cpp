// Who holds what and who waits, for `status` and `why`: the kernel's locks first, the notes only where they agree with it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/keeper_look.hpp"
#include "host/claims/kept_berths.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/claims/share_terms.hpp"
#include "host/control/holder.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

// A claim older than this gives way also to those it has passed: what kept them then may have gone. Where it has not, a claim
// is given back for nothing once in that time.
constexpr std::uint64_t passed_over_for_us = 30 * 1'000'000ull;

// A lock that is held, before anybody is named.
struct HeldLock {
  unsigned slot, berth;
  Fd node;                                       // empty where it was deleted
  HeldBerth::By by = HeldBerth::By::lock;
};

// A holding of whom it is not certain whose it is.
struct Doubtful {
  unsigned slot, berth;
  std::size_t at;                                // among all
};

// Exact under alloc: trial locks.
std::vector<HeldLock> try_all(ClaimDirectory& nodes, KeptBerths& kept) {
  std::vector<HeldLock> held;
  nodes.refresh_slots();
  WhoFile who(nodes.who());
  SlotLook look(nodes, who);
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    if (nodes.slots()[slot].empty()) continue;
    SlotLook::Held state = look.try_slot(slot);
    if (state == SlotLook::Held::exclusively) held.push_back({slot, 0, nodes.open_gpu(slot, O_RDONLY)});
    const std::vector<HeldBerth> berths = look.live_berths(slot);
    if (state != SlotLook::Held::by_sharers && !berths.empty())
      kept.unshared.emplace(nodes.slots()[slot], BerthKeeper(nodes, slot, berths.front()));
    if (state == SlotLook::Held::by_sharers) {
      for (const HeldBerth& one : berths)
        held.push_back({slot, one.berth, nodes.open_share(slot, one.berth - 1, O_RDONLY), one.by});
      // Somebody shares without a berth, unless he has left since. To who wants it the GPU is taken.
      if (berths.empty() && look.try_slot(slot) != SlotLook::Held::no)
        held.push_back({slot, 0, nodes.open_gpu(slot, O_RDONLY)});
    }
    look.drop(slot);
  }
  return held;
}

// Does somebody keep it? A try to share, which needs no order.
bool is_kept(const Fd& node) { return node && ::flock(node.get(), LOCK_SH | LOCK_NB) != 0; }

// When alloc cannot be had: what /proc/locks says, and for what it does not name, a try. Nobody is to look idle who is not; and
// whoever keeps berths of a unit that another has exclusively hides nobody: he is no sharer.
std::vector<HeldLock> read_only_view(ClaimDirectory& nodes, const KernelLocks& locks) {
  std::vector<HeldLock> held;
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    if (nodes.slots()[slot].empty()) continue;
    Fd unit = nodes.open_gpu(slot, O_RDONLY);
    const bool listed = unit && !lockers_of(locks.flocks, unit.get()).empty();
    if (unit && (listed ? is_exclusive(locks.flocks, unit.get()) : is_kept(nodes.open_gpu(slot, O_RDWR)))) {
      held.push_back({slot, 0, std::move(unit)});
      continue;
    }
    const std::size_t before = held.size();
    for (unsigned berth = 0; berth < model::share_berths; ++berth) {
      Fd node = nodes.open_share(slot, berth, O_RDONLY);
      if (node && (!lockers_of(locks.flocks, node.get()).empty() || is_kept(nodes.open_share(slot, berth, O_RDWR))))
        held.push_back({slot, berth + 1, std::move(node)});
    }
    if (listed && held.size() == before) held.push_back({slot, 0, std::move(unit)});
  }
  return held;
}

FileNumber file_of(const HeldLock& lock) {
  struct stat node;
  return ::fstat(lock.node.get(), &node) == 0 ? FileNumber(node.st_dev, node.st_ino) : FileNumber();
}

std::set<FileNumber> files_of(const std::vector<HeldLock>& locks) {
  std::set<FileNumber> files;
  for (const HeldLock& lock : locks) files.insert(file_of(lock));
  return files;
}

// What is known of holders. Nobody's length of it may keep others waiting: it is read outside of alloc, before the locks are
// tried.
struct Known {
  NoteBook notes;
  KernelLocks locks;
};

Known look_up(NoteBook notes, const SlotKeys& keys) {
  notes.collect();
  notes.read(keys);
  return {std::move(notes), kernel_locks()};
}

void tell(model::Holding& holding, const Note& note) {
  holding.id = note.id;
  holding.since = note.since;
  holding.until = note.until;
  holding.command = note.command;
  holding.share_with_any = note.share_with_any;
  holding.uid = note.process.uid;
  holding.pid = static_cast<pid_t>(note.process.pid);
  if (note.shared && note.memory_mib != 0) holding.memory_mib = note.memory_mib;
}

// Does the process that a note names live? Its number may be another's by now, or of another pid namespace.
bool lives(const Note& note) {
  const auto process = process_state(static_cast<pid_t>(note.process.pid));
  return process && is_same_start(process->start, note.process.start) && process->uid == note.process.uid;
}

// Ended, and its parent has not asked yet: in a container often for good. Or a holder that was told to let go, and ends. (Of
// others it is not asked: who claims by the library may have thousands of descriptors.)
bool has_left_it(pid_t pid, const Fd& node, KeeperLook& keepers) {
  const auto process = read_process(pid);
  if (!process || is_ended_state(process->state)) return process.has_value();
  return process->name.starts_with(holder_name) && !keepers.keeps(pid, node.get()).value_or(true);
}

// Where the kernel's list could not be read to its end: the process that a note names, if its descriptors can be seen, has the
// lock or has not.
bool keeps_what_it_says(const Note& note, const Fd& node, KeeperLook& keepers) {
  return lives(note) && keepers.keeps(static_cast<pid_t>(note.process.pid), node.get()).value_or(false);
}

// Who took it has ended and his number is a stranger's by now, whose descriptors we may not see. Those of our own we may.
bool mine_keep(const Fd& node, KeeperLook& keepers) {
  return std::ranges::any_of(all_pids(), [&](pid_t pid) {
    return user_of(pid) == ::geteuid() && keepers.keeps(pid, node.get()).value_or(false);
  });
}

const Note* only_one_of(uid_t user, const std::vector<const Note*>& notes) {
  const auto is_his = [&](const Note* note) { return note->process.uid == user; };
  if (std::ranges::count_if(notes, is_his) != 1) return nullptr;
  return *std::ranges::find_if(notes, is_his);
}

// Somebody's note says that his process took the lock, and the number that the kernel has is that of another's process, who may
// have a note as well: his may have ended and left it to a child.
const Note* says_the_same_number(const Taker& taker, const Note* his, const std::vector<const Note*>& notes) {
  if (!taker.uid || (notes.size() != 1 && !his)) return nullptr;
  return another_of_the_same_number(notes, *taker.uid, taker.pid);
}

// What the kernel says goes before any note; a note that it does not confirm is shown as unverified, and only where it says
// nothing else. Where several users say that the berth is theirs, nobody is named for it but all of them.
model::Holding holding_of(const HeldLock& lock, const ClaimDirectory& nodes, Known& known, KeeperLook& keepers) {
  const NoteBook& notes = known.notes;
  model::Holding holding;
  holding.key = nodes.slots()[lock.slot];
  holding.held = true;
  holding.shared = lock.berth != 0;
  const auto lockers = told_lockers_of(known.locks, lock.node.get());
  Taker taker = taker_among(lockers.value_or(std::vector<pid_t>()));
  const bool certain = lockers.has_value();   // does the kernel really name nobody?
  const std::vector<const Note*> all = notes.naming(lock.slot, lock.berth);
  const Note* his = certain ? names_holder(notes, lock.slot, lock.berth, taker) : nullptr;
  // Who took it may have ended and left it to a child, and his number may be another's by now: whose descriptors can be seen
  // has the lock or has not.
  const bool doubtful = certain && (!his || all.size() > 1) && taker.pid != 0;
  if (doubtful && !keepers.keeps(taker.pid, lock.node.get()).value_or(true)) {
    taker = {};
    his = names_holder(notes, lock.slot, lock.berth, taker);
  }
  const Note* mine = certain && taker.uid != ::geteuid() ? only_one_of(::geteuid(), all) : nullptr;
  if (mine && mine_keep(lock.node, keepers)) {
    taker = {};
    his = mine;
  }
  if (!certain && all.size() == 1 && keeps_what_it_says(*all.front(), lock.node, keepers)) his = all.front();
  const Note* left = says_the_same_number(taker, his, all);
  if (left && his && keepers.keeps(taker.pid, lock.node.get()).value_or(false)) left = nullptr;
  if (left) {
    holding.user = user_name(left->process.uid) + " or " + user_name(*taker.uid);
  } else if (his) {
    tell(holding, *his);
    holding.verified = true;
    holding.pid = taker.pid;   // in a container he has another number than his note says
    if (taker.pid == 0 && lives(*his)) holding.pid = static_cast<pid_t>(his->process.pid);
    // A child of it keeps the lock, or a guest.
    if (holding.pid != 0 && has_left_it(holding.pid, lock.node, keepers)) holding.pid = 0;
  } else if (taker.uid) {
    holding.uid = *taker.uid;
    holding.pid = taker.pid;
  } else if (all.size() == 1) {
    tell(holding, *all.front());
    holding.pid = taker.pid != 0 ? taker.pid : lives(*all.front()) ? holding.pid : 0;
  } else {
    for (const Note* note : all) holding.user += (holding.user.empty() ? "" : " or ") + user_name(note->process.uid);
    holding.pid = taker.pid;
  }
  return holding;
}

bool is_unknown(const model::Holding& holding) { return holding.uid == static_cast<uid_t>(-1) && holding.user.empty(); }

// What a sharer says on his berth decides who sits beside him, not his note. Where they differ somebody else says more there:
// then the figure is unknown.
void count_terms(model::Holding& holding, const HeldLock& lock, const ClaimDirectory& nodes, KeptBerths& kept) {
  if (!holding.shared) return;
  const auto terms = terms_on(lock.node.get());
  const ShareTerms noted{number_of_claim(holding.id), holding.share_with_any, holding.memory_mib.value_or(0)};
  const bool as_noted = terms && lock.by == HeldBerth::By::lock && (!holding.verified || *terms == noted);
  holding.share_with_any = as_noted && terms->with_any;
  holding.memory_mib.reset();
  if (as_noted) holding.memory_mib = terms->memory_mib;
  if (lock.by == HeldBerth::By::missed)
    kept.missed.emplace(holding.key, BerthKeeper(nodes, lock.slot, {lock.berth, {}, lock.by}));
  else if (!as_noted && says_anything(lock.node.get()))
    kept.by_bytes.emplace(holding.key, BerthKeeper(nodes, lock.slot, {lock.berth, {}, HeldBerth::By::bytes}));
  if (is_unknown(holding) && lock.by != HeldBerth::By::lock) holding.user = "somebody";
}

// Claims that are over while the process they were made for still runs: nobody holds the slot, somebody uses it. Their keeper
// keeps the note live as long.
void add_overdue(std::vector<model::Holding>& holdings, const ClaimDirectory& nodes, const NoteBook& notes) {
  for (unsigned slot = 0; slot < nodes.slots().size(); ++slot) {
    const std::string& key = nodes.slots()[slot];
    auto is_held = [&](const model::Holding& held) { return held.held && held.key == key; };
    if (key.empty() || std::any_of(holdings.begin(), holdings.end(), is_held)) continue;
    for (const Note& note : notes.live()) {
      if (!note.overdue || !note.names(slot)) continue;
      const Taker process = taker_among({static_cast<pid_t>(note.process.pid)});
      if (process.pid == 0) continue;                                  // it has ended
      if (process.uid && *process.uid != note.process.uid) continue;   // he speaks of another's process
      if (process.start && !is_same_start(*process.start, note.process.start)) continue;   // ... or of one that has ended
      model::Holding holding;
      holding.key = key;
      tell(holding, note);
      holding.overdue = true;
      holding.verified = process.uid && process.start && is_same_start(*process.start, note.process.start);
      holdings.push_back(std::move(holding));
    }
  }
}

// Does the kernel, or what can be seen of its process, leave it open who has it?
bool is_doubtful(const model::Holding& holding, const HeldLock& lock, KeeperLook& keepers) {
  if (holding.uid == static_cast<uid_t>(-1)) return true;
  return ::geteuid() == 0 && (holding.pid == 0 || !keepers.keeps(holding.pid, lock.node.get()).value_or(true));
}

// Who took a lock may have ended and left it to a child, and whoever has a note may say that it is his. Whoever may see the
// descriptors of who has it names him, by his own note where he has one.
void name_by_descriptors(std::vector<model::Holding>& holdings, const std::map<FileNumber, Doubtful>& doubtful,
                         const NoteBook& notes) {
  std::set<FileNumber> files;
  for (const auto& [file, one] : doubtful) files.insert(file);
  Allowance allowance(to_name_holders);
  for (const auto& [file, pids] : keepers_by_descriptors(files, allowance)) {
    const Doubtful& one = doubtful.at(file);
    model::Holding& holding = holdings[one.at];
    const auto is_his = [&](pid_t pid) { return taker_among({pid}).uid == holding.uid; };
    const Taker keeper = taker_among(pids);
    if (!keeper.uid || (holding.verified && std::ranges::any_of(pids, is_his))) continue;
    const Note* his = only_one_of(*keeper.uid, notes.naming(one.slot, one.berth));
    model::Holding seen;
    seen.key = holding.key;
    seen.held = true;
    seen.shared = holding.shared;
    seen.uid = *keeper.uid;
    if (his) tell(seen, *his);
    seen.verified = his != nullptr;
    seen.pid = keeper.pid;
    holding = std::move(seen);
  }
}

// What no descriptor keeps is on its way in a socket, or io_uring has it. It is his who took it, if that process has some
// coming; of the others who have it may be anybody's: to root they are named all, or nobody.
void name_by_sockets(std::vector<model::Holding>& holdings, const std::map<FileNumber, Doubtful>& doubtful,
                     const std::vector<HeldLock>& held, KernelLocks& locks) {
  constexpr std::size_t most_coming = 64;
  std::optional<std::vector<pid_t>> coming;
  for (const auto& [file, one] : doubtful) {
    model::Holding& holding = holdings[one.at];
    if (!is_unknown(holding)) continue;
    const auto lockers = told_lockers_of(locks, held[one.at].node.get());
    if (!lockers || lockers->empty()) continue;   // not told, or given back by now
    if (!coming) coming = with_descriptors_coming(most_coming);
    const Taker taker = taker_among(*lockers);
    if (taker.uid && std::ranges::count(*coming, taker.pid) > 0) {
      holding.uid = *taker.uid;
      holding.pid = taker.pid;
      continue;
    }
    if (coming->size() == most_coming) continue;
    std::set<std::string> users;
    for (const pid_t pid : *coming)
      if (const auto uid = taker_among({pid}).uid) users.insert(user_name(*uid));
    for (const std::string& user : users) holding.user += (holding.user.empty() ? "perhaps " : " or ") + user;
  }
}

// Who waits there, as far as the kernel tells: anybody can write a ticket in another's name, and lock its FIFO by a process
// that ends. A number that is used again has another start time; and whose descriptors can be seen has the lock or has not.
Taker taker_of(const WrittenTicket& ticket, int turn, const KernelLocks& locks, Allowance& to_see_locks) {
  const Taker taker = taker_among(lockers_of(locks.flocks, turn));
  if (taker.start ? !is_same_start(*taker.start, ticket.start) : static_cast<std::uint32_t>(taker.pid) != ticket.pid) return {};
  if (taker.uid && !keeps_lock(taker.pid, turn, [&] { return to_see_locks.over(); }).value_or(true)) return {};
  return taker;
}

}  // namespace

std::vector<model::Holding> FifoStore::holdings() {
  adopt_after_fork();
  bool moved;
  {
    std::lock_guard lock(threads_);
    moved = !nodes_->state().current();
  }
  if (moved) reopen();
  SlotKeys keys;
  {
    std::lock_guard lock(threads_);
    nodes_->refresh_slots();
    keys = nodes_->slots();
  }
  Known before = look_up(notes(), keys);
  std::optional<Section> section(std::in_place, *this, looks_, Section::Said{}, std::span<const int>{});
  KeptBerths kept;
  const std::vector<HeldLock> held = section->ordered() ? try_all(*nodes_, kept) : read_only_view(*nodes_, before.locks);
  section->leave();
  const std::string alloc_kept_by = section->why();
  std::optional<Known> after;   // somebody may have come, or made his note in a file that had no live one, since that was read
  std::vector<model::Holding> holdings;
  KeeperLook keepers(files_of(held));
  std::map<FileNumber, Doubtful> doubtful;
  for (const HeldLock& lock : held) {
    holdings.push_back(holding_of(lock, *nodes_, before, keepers));
    const bool certain = holdings.back().verified;
    if (!certain && !after) after.emplace(look_up(book_of(notes_.get()), nodes_->slots()));
    if (!certain) holdings.back() = holding_of(lock, *nodes_, *after, keepers);
    if (is_doubtful(holdings.back(), lock, keepers))
      doubtful.emplace(file_of(lock), Doubtful{lock.slot, lock.berth, holdings.size() - 1});
  }
  add_overdue(holdings, *nodes_, before.notes);
  section.reset();
  if (!doubtful.empty()) {
    Known& known = after ? *after : before;
    name_by_descriptors(holdings, doubtful, known.notes);
    name_by_sockets(holdings, doubtful, held, known.locks);
  }
  {
    std::lock_guard lock(threads_);
    for (std::size_t i = 0; i < held.size(); ++i) count_terms(holdings[i], held[i], *nodes_, kept);
  }
  std::string berths_kept_by = kept.in_words();   // may ask the network for a name
  {
    std::lock_guard lock(threads_);
    berths_kept_by_ = std::move(berths_kept_by);
    say_who_keeps(alloc_kept_by, before.locks);
  }
  std::map<uid_t, std::string> names;
  for (model::Holding& holding : holdings) {
    if (!holding.user.empty()) continue;
    auto [name, unknown] = names.try_emplace(holding.uid);
    if (unknown && name->first != static_cast<uid_t>(-1)) name->second = user_name(name->first);
    holding.user = name->second;
  }
  return holdings;
}

bool FifoStore::knows_any(const std::vector<std::string>& keys) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  return std::ranges::any_of(keys, [this](const std::string& key) { return nodes_->slot_of(key).has_value(); });
}

// Who keeps others from order, from the truth or from sharing, for whoever looks.
void FifoStore::say_who_keeps(const std::string& alloc, const KernelLocks& locks) {
  kept_by_ = !alloc.empty() ? alloc : !locks.crowd.empty() ? locks.crowd : berths_kept_by_;
  if (kept_by_.empty()) kept_by_ = safe_gpu_is_kept(options_.neighbours);
}

Fd FifoStore::open_turn_of(const WrittenTicket& ticket) {
  std::lock_guard lock(threads_);
  return nodes_->open_turn(ticket.index, O_PATH);
}

std::vector<model::Waiting> FifoStore::waiting() {
  const KernelLocks locks = kernel_locks();   // of any length: not under alloc
  std::optional<Section> section(std::in_place, *this, looks_, Section::Said{}, std::span<const int>{});
  QueueFile queue(nodes_->queue());
  queue.read();
  std::vector<WrittenTicket> alive;
  for (const WrittenTicket& ticket : queue.tickets())
    if (is_kept(nodes_->open_turn(ticket.index, O_RDWR)))
      alive.push_back(ticket);   // no descriptor stays: there may be many, and a writer would hide the end of who waits there
  section->leave();
  hook("looked");
  say_who_keeps(section->why(), locks);
  const SlotKeys keys = nodes_->slots();
  const bool words = has_words();
  section.reset();   // what comes may last, and asks the store
  const std::vector<bool> vouched_for = vouched(alive);
  Allowance to_see_locks(to_name_holders);
  std::vector<model::Waiting> waiting;
  std::vector<uid_t> said;
  for (std::size_t i = 0; i < alive.size(); ++i) {
    const WrittenTicket& ticket = alive[i];
    const Taker taker = taker_of(ticket, open_turn_of(ticket).get(), locks, to_see_locks);
    model::Waiting line;
    line.ticket = ticket.view.number;
    line.pid = taker.pid;
    line.vouched = vouched_for[i];
    // His own word names him where the kernel does not, and the kernel counts only beside it.
    const bool named = line.vouched && (words || taker.uid);
    line.uid = named ? ticket.view.uid : static_cast<uid_t>(-1);
    said.push_back(ticket.view.uid);
    for (unsigned slot = 0; slot < model::max_slots; ++slot)
      if (ticket.view.eligible.test(slot) && !keys[slot].empty()) line.eligible.push_back(keys[slot]);
    static_cast<model::Terms&>(line) = ticket.view;
    line.since = ticket.view.since;
    line.mine = line.uid == ::geteuid();
    const auto process = taker.pid > 0 ? process_state(taker.pid) : std::nullopt;
    line.stopped = process && is_stopped(*process);
    waiting.push_back(std::move(line));
  }
  // Names may be asked of the network: not under alloc. Who does not vouch for it himself is who the ticket says, unverified.
  for (std::size_t i = 0; i < waiting.size(); ++i)
    waiting[i].user = waiting[i].uid != static_cast<uid_t>(-1) ? user_name(waiting[i].uid) : "?" + user_name(said[i]);
  return waiting;
}

std::vector<pid_t> FifoStore::wanted_by(const port::Claim& claim) {
  if (!claim.is_held()) return {};  // nothing is held here: it would not help them
  adopt_after_fork();
  std::lock_guard lock(threads_);
  QueueFile queue(nodes_->queue());
  queue.read();
  if (queue.tickets().empty()) return {};
  const bool old = boot_clock_us() - claim.taken_us() > passed_over_for_us;
  model::SlotSet held;
  for (const std::string& key : claim.keys())
    if (auto slot = nodes_->slot_of(key)) held.set(*slot);
  std::vector<pid_t> waiters;
  for (const WrittenTicket& ticket : queue.tickets()) {
    if ((ticket.view.eligible & held).none()) continue;
    if (claim.has_passed(ticket.view.number) && (!old || stands_still(ticket.pid, ticket.start))) continue;
    // By a descriptor that can write: who takes our lock of a dead one for his hears when we close it, and the end of one that
    // lives wakes nobody.
    const Fd turn = nodes_->open_turn(ticket.index, O_RDWR);
    if (is_kept(turn)) waiters.push_back(static_cast<pid_t>(ticket.pid));
    hook("tried");
  }
  return waiters;
}

}  // namespace thole::host
