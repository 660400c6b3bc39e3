#include "host/claims/tidy_notes.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/delete_for_owner.hpp"
#include "host/claims/keeper_look.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/membership.hpp"
#include "host/claims/notes.hpp"
#include "host/claims/own_tickets.hpp"
#include "host/claims/queue_file.hpp"
#include "host/claims/space.hpp"
#include "host/entries.hpp"
#include "host/process/open_files.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

constexpr unsigned most_files_of_a_user = 16;
constexpr off_t largest_note = 1 << 18;

std::set<FileNumber> nodes_of_units(const NotesAbout& about) {
  std::vector<std::string> names;
  for (const std::string& key : about.keys)
    if (!key.empty()) std::ranges::move(nodes_of(key), std::back_inserter(names));
  return numbers_of_files(about.directory, names);
}

// Reading notes costs, and anybody can have any number of files of them: so much for all, and for one user's.
constexpr std::chrono::milliseconds for_a_users_notes{500};

// The locks that users hold, as far as their live notes say so and the kernel names nobody else.
class HeldByNote {
 public:
  explicit HeldByNote(const NotesAbout& about)
      : about_(about), locks_(kernel_locks(for_init_to_tell)), keepers_(nodes_of_units(about)) {
    const Fd queue = open_at(about.directory, "queue", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!queue) return;
    QueueFile file(queue.get());
    file.read();
    tickets_ = file.tickets();
  }

  // Whether there is time to look at another file of this user's. What is not looked at may speak of anything.
  bool has_time_for(uid_t uid) const {
    return !all_.over() && work_.spent_for(uid) < for_a_users_notes;
  }

  // Does this file speak of a lock of its user, or say a ticket of his, and no other file of his before it? Nothing where that
  // cannot be told.
  std::optional<bool> is_needed(int notes, const std::string& name, uid_t uid) {
    return work_.of(uid, [&] {
      const std::optional<bool> speaks = speaks_first(notes, name, uid);
      return speaks == false ? says_first(notes, name, uid) : speaks;
    });
  }

  // The claims that this file speaks of, with those of their slots that its user holds; none where he holds none. False where
  // not all of it could be read: it may speak of any.
  using Visit = std::function<void(const Note&, const std::vector<unsigned>&)>;
  bool for_each_held(int notes, const std::string& name, uid_t uid, const Visit& visit) {
    return work_.of(uid, [&] { return read_held(notes, name, uid, visit); });
  }

 private:
  bool read_held(int notes, const std::string& name, uid_t uid, const Visit& visit) {
    NoteBook book(open_at(notes, ".", O_RDONLY | O_DIRECTORY), about_.number);
    book.collect(name, uid);
    book.read(about_.keys, for_a_users_notes);
    for (const Note& note : book.live()) {
      std::vector<unsigned> slots;
      for (unsigned slot = 0; slot < model::max_slots; ++slot)
        if (!note.overdue && note.names(slot) && is_held_by(slot, note.berths[slot] - 1u, uid)) slots.push_back(slot);
      if (!slots.empty()) visit(note, slots);
    }
    return book.unread().empty();
  }

  // Does this file say a ticket of its user's, whose FIFO is locked, that no other file before it says?
  bool says_first(int notes, const std::string& name, uid_t uid) {
    bool first = false;
    for (const WrittenTicket& ticket : tickets_)
      if (ticket.view.uid == uid && waits(ticket) && says(notes, name, about_.number, ticket))
        first = said_.insert(ticket.index).second || first;
    return first;
  }

  // Does this file speak of a lock of its user, and no other file of his before it?
  std::optional<bool> speaks_first(int notes, const std::string& name, uid_t uid) {
    bool first = false;
    const bool all_read = read_held(notes, name, uid, [&](const Note& note, const std::vector<unsigned>& slots) {
      for (const unsigned slot : slots) first = spoken_of_.insert({uid, slot, note.berths[slot]}).second || first;
    });
    return first || all_read ? std::optional(first) : std::nullopt;
  }

  // Many notes may say the same.
  bool is_held_by(unsigned slot, unsigned berth, uid_t uid) {
    const auto [known, is_new] = held_.try_emplace({slot, berth, uid}, false);
    if (is_new) known->second = is_held(slot, berth, uid);
    return known->second;
  }

  bool is_held(unsigned slot, unsigned berth, uid_t uid) {
    const std::string& key = about_.keys[slot];
    const std::string node = berth == 0 ? gpu_node(key) : share_node(key, berth - 1);
    const Fd fd = open_at(about_.directory, node.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const int error = errno;
    const std::vector<pid_t> lockers = lockers_of(locks_.flocks, fd.get());
    // Not known: then nothing of his is deleted.
    if ((!fd && says_nothing(error)) || (lockers.empty() && !locks_.whole)) return true;
    const Taker taker = taker_among(lockers);
    if (lockers.empty())   // the list was too long, or changed while it was read
      return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
    // Who took it may have ended, and his number be another's by now: then it is a child's, whose nobody knows.
    return !taker.uid || *taker.uid == uid || !keepers_.keeps(taker.pid, fd.get()).value_or(false);
  }

  bool waits(const WrittenTicket& ticket) {
    const Fd turn = open_at(about_.directory, turn_node(ticket.index).c_str(), O_PATH | O_NOFOLLOW);
    if (!turn) return true;
    const auto lockers = told_lockers_of(locks_, turn.get());
    return !lockers || !lockers->empty();
  }

  const NotesAbout& about_;
  KernelLocks locks_;
  KeeperLook keepers_;
  mutable Allowance all_{for_init_to_tell};
  WorkOfUsers work_;
  std::map<std::tuple<unsigned, unsigned, uid_t>, bool> held_;
  std::vector<WrittenTicket> tickets_;  // in line
  std::set<unsigned> said_;            // their indices
  std::set<std::tuple<uid_t, unsigned, unsigned>> spoken_of_;
};

// What an idle file would cost at least, on tmpfs.
constexpr off_t a_page = 4096;

Fd open_file(int notes, const std::string& name) {
  return open_at(notes, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

// Live notes are locked for writing, as only their user can; for reading anybody can. Where that cannot be told it may have
// some.
bool may_have_live_notes(const Fd& file) {
  struct flock all {};
  all.l_type = F_RDLCK;
  return !file || ::fcntl(file.get(), F_OFD_GETLK, &all) != 0 || all.l_type != F_UNLCK;
}

// Has it no live note? Then it gets none while this lives, and who wants to note something there makes another file.
class Idle {
 public:
  Idle(int notes, const std::string& name) : fd_(open_file(notes, name)) {
    struct flock all {};
    all.l_type = F_RDLCK;
    if (fd_ && ::fcntl(fd_.get(), F_OFD_SETLK, &all) != 0) fd_ = Fd();
  }
  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  Fd fd_;
};

// Attributes cost time: each user's own, so that nobody's note goes for what others have done, and of all so much.
class AttributesOfNotes {
 public:
  enum class Cleared { all, not_all, not_looked_at };

  Cleared clear(int fd, uid_t owner) {
    if (work_.spent_for_all() > for_init_to_tell) return Cleared::not_looked_at;
    Allowance left(for_attributes - work_.spent_for(owner));
    return work_.of(owner, [&] { return clear_attributes(fd, left); }) ? Cleared::all : Cleared::not_all;
  }

 private:
  WorkOfUsers work_;
};

// What one of the entries is.
struct Entry {
  std::string name;
  struct stat found {};
};

// Has nobody written there since? Whoever notes something does.
bool is_unchanged(int notes, const Entry& entry) {
  struct stat now {};
  const struct stat& then = entry.found;
  const auto of_writing = [](const struct stat& file) {
    return std::tuple(file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
  };
  return ::fstatat(notes, entry.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 && of_writing(now) == of_writing(then);
}

// Deletes entries, and says what stays.
class Deletion {
 public:
  Deletion(int notes, const TidyWish& wish) : notes_(notes), wish_(wish) {}

  void of(const Entry& entry) {
    const std::string why = delete_entry(notes_, entry.name, entry.found, wish_.rights);
    if (why.empty() || ++stay_ > most_named) return;
    named_.push_back(fmt::format("{}/{} of {} is no note, but stays: {}; delete it if it may go", wish_.path,
                                 printable(entry.name, 64), printable(user_name(entry.found.st_uid), 32), why));
  }

  std::vector<std::string> cautions() {
    if (stay_ > most_named) named_.push_back(fmt::format("{} more such entries stay in {}", stay_ - most_named, wish_.path));
    return std::move(named_);
  }

 private:
  static constexpr std::size_t most_named = 8;
  int notes_;
  const TidyWish& wish_;
  std::size_t stay_ = 0;
  std::vector<std::string> named_;
};

bool may_be_notes(const Entry& entry) {
  return S_ISREG(entry.found.st_mode) && entry.name.starts_with(std::to_string(entry.found.st_uid) + "-") &&
         entry.found.st_size <= largest_note;
}

// Each file once; of each user the first, then of each the second, …: nobody's wait for the time that another's take.
std::vector<Entry> live_notes_in_turn(int notes) {
  std::vector<std::pair<unsigned, Entry>> numbered;
  std::map<uid_t, unsigned> of_user;
  std::set<FileNumber> seen;
  for (const std::string& name : entries_in(notes)) {
    Entry entry{name, {}};
    if (::fstatat(notes, name.c_str(), &entry.found, AT_SYMLINK_NOFOLLOW) != 0 || !may_be_notes(entry)) continue;
    if (!seen.emplace(entry.found.st_dev, entry.found.st_ino).second || !may_have_live_notes(open_file(notes, name))) continue;
    const unsigned number = of_user[entry.found.st_uid]++;
    numbered.emplace_back(number, std::move(entry));
  }
  std::ranges::stable_sort(numbered, {}, &std::pair<unsigned, Entry>::first);
  std::vector<Entry> all;
  for (auto& [number, entry] : numbered) all.push_back(std::move(entry));
  return all;
}

}  // namespace

std::set<unsigned> claimed_slots(int notes, const NotesAbout& about, Counted counted) {
  std::set<unsigned> claimed;
  const auto count = [&](const Note& note, const std::vector<unsigned>& held) {
    claimed.insert(held.begin(), held.end());
    for (unsigned slot = 0; slot < model::max_slots && counted == Counted::all_of_its_claim; ++slot)
      if (note.names(slot)) claimed.insert(slot);
  };
  HeldByNote held(about);
  for (const Entry& entry : live_notes_in_turn(notes)) {
    const uid_t user = entry.found.st_uid;
    if (held.has_time_for(user) && held.for_each_held(notes, entry.name, user, count)) continue;
    if (counted == Counted::all_of_its_claim) continue;   // else who makes his notes too many keeps all slots
    for (unsigned slot = 0; slot < model::max_slots; ++slot) claimed.insert(slot);
    break;
  }
  return claimed;
}

std::vector<std::string> tidy_notes(int notes, const NotesAbout& about, const TidyWish& wish) {
  std::map<uid_t, unsigned> files;
  std::map<uid_t, bool> members;
  std::set<uid_t> untold;              // of whom some were not looked at
  std::set<FileNumber> seen;           // one file may have any number of names
  AttributesOfNotes attributes;
  HeldByNote held(about);
  Deletion deletion(notes, wish);
  for (const std::string& name : entries_in(notes)) {
    Entry entry{name, {}};
    if (::fstatat(notes, name.c_str(), &entry.found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const uid_t user = entry.found.st_uid;
    if (!may_be_notes(entry)) {
      deletion.of(entry);
      continue;
    }
    auto [member, unknown] = members.try_emplace(user, true);
    if (unknown && wish.group) member->second = is_member(user, *wish.group);
    const bool is_first = seen.emplace(entry.found.st_dev, entry.found.st_ino).second;
    const Fd file = is_first ? open_file(notes, name) : Fd();
    const bool live = is_first && may_have_live_notes(file);
    std::optional<bool> told = false;    // of what is live
    if (live) told = held.has_time_for(user) ? held.is_needed(notes, name, user) : std::nullopt;
    if (!told) untold.insert(user);
    const bool needed = told.value_or(true);
    const bool usual = (++files[user] <= most_files_of_a_user && member->second) || needed;
    const bool small = (entry.found.st_size <= a_page && !wish.space_is_scarce) || needed;
    bool stays = usual && small;
    if (stays && file) {
      const auto cleared = attributes.clear(file.get(), user);
      const bool is_left_alone = needed && cleared == AttributesOfNotes::Cleared::not_looked_at;
      if (is_left_alone) untold.insert(user);
      stays = is_left_alone || cleared == AttributesOfNotes::Cleared::all;
    }
    if (stays) continue;
    const Idle idle(notes, name);   // until it is deleted
    const bool is_as_seen = (live || !is_first) && is_unchanged(notes, entry);
    if (idle || is_as_seen) deletion.of(entry);   // else a note has come live since
  }
  std::vector<std::string> cautions = deletion.cautions();
  std::vector<std::string> users;
  for (const uid_t user : untold) users.push_back(printable(user_name(user), 32));
  if (!users.empty())
    cautions.push_back(fmt::format("{}: there are more notes than could be looked at, of {}; they stay", wish.path,
                                   join(some_of(std::move(users)), ", ")));
  return cautions;
}

}  // namespace thole::host
