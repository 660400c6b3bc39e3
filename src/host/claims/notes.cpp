#include "host/claims/notes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/own_files.hpp"
#include "host/entries.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"
#include "host/user_namespace.hpp"

namespace thole::host {
namespace {

constexpr off_t record_size = sizeof(NoteRecord);
constexpr unsigned records_of_a_file = 512;
constexpr unsigned locks_looked_at = 2 * records_of_a_file + 1;   // in one file: one for each record, and what is between
constexpr std::size_t most_files = 256;
constexpr std::size_t few = 64;                               // users at a time

// What the files of one stranger may cost: the kernel goes through all locks of a file for every question, and anybody can set
// any number of them.
constexpr std::chrono::milliseconds to_collect{5}, to_read{3};
// and those of all strangers together: each has thousands of subordinate uids
constexpr std::chrono::milliseconds to_collect_all{50}, to_read_all{10};
constexpr std::chrono::milliseconds to_find_holders{10};
constexpr std::size_t a_crowd_of_users = 16;                  // from here on it matters whose notes are read first

enum Byte : off_t { live_byte = 0, taken_byte = 1 };
off_t byte_of(unsigned index, Byte byte) { return index * record_size + byte; }

// The users who have taken locks of units here, as far as the kernel names them: there are no more of them than locks.
std::set<uid_t> users_of_locks(int notes, std::chrono::nanoseconds limit) {
  const Fd nodes = open_at(notes, "..", O_RDONLY | O_DIRECTORY);
  struct stat about;
  if (!nodes || ::fstat(nodes.get(), &about) != 0) return {};
  const KernelLocks locks = kernel_locks(limit);
  std::map<std::uint64_t, pid_t> taken;   // by inode: who is named first
  for (const KernelLock& lock : locks.flocks)
    if (lock.dev == about.st_dev) taken.try_emplace(lock.ino, lock.pid);
  std::set<uid_t> users;
  for (const std::string& name : entries_in(nodes.get())) {
    struct stat node;
    if (!name.starts_with("gpu.") && !name.starts_with("share.")) continue;
    if (::fstatat(nodes.get(), name.c_str(), &node, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const auto lock = taken.find(node.st_ino);
    if (lock == taken.end()) continue;
    if (const auto user = taker_among({lock->second}).uid) users.insert(*user);
  }
  return users;
}

// Which records of [from, to) are live. The kernel tells of any lock in a range, not of the first: so what is left on both
// sides of it is asked for again. False when there are too many locks.
bool find_live(int fd, off_t from, off_t to, unsigned& asks, Allowance& allowance, std::vector<unsigned>& live) {
  struct flock found;
  if (from >= to) return true;
  if (asks == 0 || allowance.over()) return false;
  --asks;
  if (!write_lock_in(fd, from, to, found)) return true;
  const off_t begin = std::max(from, found.l_start);
  const off_t end = found.l_len == 0 ? to : std::min(to, found.l_start + found.l_len);
  if (begin >= end) return false;
  for (off_t index = (begin + record_size - 1) / record_size; byte_of(static_cast<unsigned>(index), live_byte) < end; ++index)
    live.push_back(static_cast<unsigned>(index));
  return find_live(fd, from, begin, asks, allowance, live) && find_live(fd, end, to, asks, allowance, live);
}

bool find_live(int fd, Allowance& allowance, std::vector<unsigned>& live) {
  struct stat file;
  if (::fstat(fd, &file) != 0) return refuse_unseen(fd, errno), false;
  unsigned asks = locks_looked_at;
  return find_live(fd, 0, std::min<off_t>(file.st_size / record_size, records_of_a_file) * record_size, asks, allowance, live);
}

// False with errno 0 where there is none.
bool read_record(int fd, unsigned index, NoteRecord& record) {
  errno = 0;
  return ::pread(fd, &record, sizeof record, index * record_size) == static_cast<ssize_t>(sizeof record);
}

// A file that some process of mine made for notes: nothing else of mine is written to, opened to readers or deleted. Who owns
// the directory that one of my files lies in can move it here, under any name. (Links are not counted: strangers can add some.)
bool is_made_for_notes(int fd, uid_t uid) {
  struct stat file;
  NoteRecord first;
  return ::fstat(fd, &file) == 0 && is_file_of(file, uid) &&
         (file.st_mode & 07777) == open_to_readers && file.st_size % record_size == 0 &&
         file.st_size <= byte_of(records_of_a_file, live_byte) && read_record(fd, 0, first) && is_note(first);
}

// May this record of such a file be written over? It is a note of mine, or the next behind the last.
bool is_mine_to_write(int fd, unsigned index) {
  NoteRecord old;
  struct stat file;
  if (read_record(fd, index, old)) return is_note(old);
  return ::fstat(fd, &file) == 0 && file.st_size == byte_of(index, live_byte);
}

bool see_record(int fd, unsigned index, NoteRecord& record) {
  if (read_record(fd, index, record)) return true;
  refuse_unseen(fd, errno);
  return false;
}

// The record as it was at a moment in which it was live: between two equal readings. (Its owner may be changing it.)
bool read_live(int fd, unsigned index, NoteRecord& record) {
  for (unsigned tries = 0; tries < 16; ++tries) {
    NoteRecord before;
    if (!see_record(fd, index, before) || !write_locked(fd, byte_of(index, live_byte)) || !see_record(fd, index, record))
      return false;
    if (std::memcmp(&before, &record, sizeof record) == 0) return true;
  }
  return false;
}

// Takes a record, writes it, makes it live. Empty when the file has none to give (errno 0), or by an error.
Fd go_live(int directory, const std::string& name, Fd fd, const NoteRecord& record, int above) {
  for (unsigned index = 0; index < records_of_a_file; ++index) {
    if (!lock(fd.get(), byte_of(index, taken_byte))) {
      if (write_locked(fd.get(), byte_of(index, taken_byte))) continue;
      if (!lock(fd.get(), byte_of(index, taken_byte))) break;  // no claim of mine that ended between: somebody read-locks it
    }
    if (!is_mine_to_write(fd.get(), index)) break;
    if (::pwrite(fd.get(), &record, sizeof record, index * record_size) != static_cast<ssize_t>(sizeof record)) return Fd();
    if (!lock(fd.get(), byte_of(index, live_byte))) break;
    if (!named(directory, name.c_str(), fd.get())) break;   // init deletes what has no live note
    return moved_above(std::move(fd), above);   // closed first at death: numbers fall
  }
  errno = 0;
  return Fd();
}

}  // namespace

Fd open_notes(const StateDir& state) {
  Fd fd = open_at(state.fd.get(), "notes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat found;
  if (!fd || ::fstat(fd.get(), &found) != 0) return refuse_unseen(state.path + "/notes", errno), Fd();
  const bool others_remove = (found.st_mode & 022) != 0 && (found.st_mode & S_ISVTX) == 0;
  if (found.st_uid != state.owner || others_remove) return Fd();
  return fd;
}

std::uint64_t number_of(const StateDir& state) {
  return static_cast<std::uint64_t>(state.ino) * 0x9e3779b97f4a7c15u ^ static_cast<std::uint64_t>(state.dev);
}

std::set<std::pair<dev_t, ino_t>> files_for_notes(int directory, uid_t uid) {
  std::set<std::pair<dev_t, ino_t>> files;
  struct stat file;
  for (const std::string& name : names_of(directory, uid, Saying::claims))
    if (::fstatat(directory, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0) files.emplace(file.st_dev, file.st_ino);
  return files;
}

bool is_noted_in(int directory, uid_t uid, dev_t device, ino_t inode) {
  return files_for_notes(directory, uid).contains({device, inode});
}

bool keeps_note(int fd, const std::string& id, const SlotKeys& keys, std::uint64_t number) {
  const Fd another = open_at(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  Allowance own(std::chrono::nanoseconds::max());
  std::vector<unsigned> live;
  if (!another) refuse_unseen(fd, errno);
  if (!another || !find_live(another.get(), own, live)) return false;
  return std::ranges::any_of(live, [&](unsigned index) {
    NoteRecord record;
    if (write_locked(fd, byte_of(index, live_byte)) || !see_record(another.get(), index, record)) return false;
    const auto note = decode(record, keys, number);
    return note && note->id == id;
  });
}

// ---- Writing ----

Fd OwnNotes::put(const Note& note, const SlotKeys& keys, int above) {
  if (!is_known_owner(uid_)) return errno = EPERM, Fd();
  const NoteRecord record = encode(note, keys, number_);
  if (!name_.empty())
    if (Fd kept = put_into(name_, record, above)) return kept;
  const std::vector<std::string> names = names_of(directory_, uid_, Saying::claims);
  for (std::size_t i = 0; i < std::min(names.size(), names_tried); ++i) {
    Fd kept = put_into(names[i], record, above);
    if (!kept) continue;
    name_ = names[i];
    return kept;
  }
  remove_idle(directory_, names, [&](int fd) { return is_made_for_notes(fd, uid_); });
  return put_into_new(record, above);
}

Fd OwnNotes::put_into(const std::string& name, const NoteRecord& record, int above) {
  Fd fd = open_at(directory_, name.c_str(), to_write);
  if (!fd || !is_made_for_notes(fd.get(), uid_)) return Fd();
  return go_live(directory_, name, std::move(fd), record, above);
}

Fd OwnNotes::put_into_new(const NoteRecord& record, int above) {
  return new_own_file(directory_, uid_, Saying::claims, name_, [&](const std::string& name, Fd fd) {
    return go_live(directory_, name, std::move(fd), record, above);
  });
}

bool OwnNotes::change(const std::string& id, const SlotKeys& keys, const std::function<void(Note&)>& how) {
  for (const std::string& name : names_of(directory_, uid_, Saying::claims)) {
    const Fd fd = open_at(directory_, name.c_str(), to_write);
    if (fd && change_in(fd, id, keys, how)) return true;
  }
  struct stat directory;
  const bool is_open = ::faccessat(directory_, ".", R_OK | X_OK, AT_EACCESS) == 0;
  if (is_open || ::fstat(directory_, &directory) != 0) return false;
  bool changed = false;
  for_each_open_file(::getpid(), [&](const OpenFile& open) {
    if (changed || !S_ISREG(open.mode) || open.uid != uid_ || open.device != directory.st_dev) return;
    const Fd fd = open_at(AT_FDCWD, fmt::format("/proc/self/fd/{}", open.fd).c_str(), to_write & ~O_NOFOLLOW);
    changed = fd && change_in(fd, id, keys, how);
  }, to_the_end);
  return changed;
}

// By another open file than that which keeps the note: the kernel does not tell a description of its own locks.
bool OwnNotes::change_in(const Fd& fd, const std::string& id, const SlotKeys& keys,
                         const std::function<void(Note&)>& how) const {
  struct stat file;
  if (::fstat(fd.get(), &file) != 0 || !is_file_of(file, uid_)) return false;
  std::vector<unsigned> live;
  Allowance own(std::chrono::nanoseconds::max());
  (void)find_live(fd.get(), own, live);
  for (unsigned index : live) {
    NoteRecord record;
    if (!read_live(fd.get(), index, record)) continue;
    auto note = decode(record, keys, number_);
    if (!note || note->id != id) continue;
    how(*note);
    record = encode(*note, keys, number_);
    return ::pwrite(fd.get(), &record, sizeof record, index * record_size) == static_cast<ssize_t>(sizeof record);
  }
  return false;
}

// ---- Reading ----

void NoteBook::collect() { collect(names_in(directory_.get(), Saying::claims), to_find_holders); }

bool NoteBook::collect_few() {
  const std::vector<std::string> names = names_in(directory_.get(), Saying::claims, few + 1);
  if (names.size() > few) return false;
  collect(names, under_alloc);
  return true;
}

void NoteBook::collect(const std::vector<std::string>& names, std::chrono::nanoseconds limit) {
  clear();
  std::map<uid_t, std::vector<const std::string*>> by_user;
  for (const std::string& name : names) {
    struct stat file;
    if (::fstatat(directory_.get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) {
      refuse_unseen("notes/" + printable(name, 32), errno);
      continue;
    }
    if (!is_file_of(file, file.st_uid)) continue;
    if (file.st_size != 0) by_user[file.st_uid].push_back(&name);
  }
  std::vector<uid_t> first{::geteuid(), 0};
  if (by_user.size() > a_crowd_of_users) std::ranges::copy(users_of_locks(directory_.get(), limit), std::back_inserter(first));
  Allowance all(to_collect_all);
  for (uid_t uid : first)
    if (const auto user = by_user.extract(uid)) collect(uid, user.mapped(), all);
  for (const auto& [uid, files] : by_user) collect(uid, files, all);
}

void NoteBook::collect(uid_t uid, const std::vector<const std::string*>& names, Allowance& all) {
  const bool mine = uid == ::geteuid();
  Allowance allowance(to_collect);
  const std::size_t before = files_.size();
  for (const std::string* name : names) {
    if (!mine && (allowance.over() || all.over())) return void(unread_.insert(uid));
    add(*name, uid);
    if (mine || files_.size() - before <= files_of_a_stranger) continue;
    files_.pop_back();
    return void(unread_.insert(uid));
  }
}

void NoteBook::clear() {
  files_.clear();
  unread_.clear();
}

void NoteBook::collect(uid_t uid) {
  clear();
  for (const std::string& name : names_of(directory_.get(), uid, Saying::claims)) add(name, uid);
}

void NoteBook::collect(const std::string& name, uid_t uid) {
  clear();
  add(name, uid);
}

void NoteBook::add(const std::string& name, uid_t uid) {
  struct stat file;
  Fd fd = open_at(directory_.get(), name.c_str(), only_look);
  if (!fd || ::fstat(fd.get(), &file) != 0) refuse_unseen("notes/" + printable(name, 32), errno);
  if (!fd) {   // EACCES: not opened to readers yet, so not live yet; any other reason hides a note that may be live
    if (errno != ENOENT && errno != EACCES && errno != ELOOP) unread_.insert(uid);
    return;
  }
  if (!is_file_of(file, uid)) return;
  if (std::any_of(files_.begin(), files_.end(), [&](const File& other) { return other.ino == file.st_ino; })) return;  // a link
  struct flock found;
  if (!write_lock_in(fd.get(), 0, records_of_a_file * record_size, found)) return;
  if (files_.size() >= most_files) unread_.insert(uid);
  else files_.push_back({std::move(fd), uid, file.st_ino});
}

void NoteBook::read(const SlotKeys& keys) { read(keys, to_read); }

void NoteBook::read(const SlotKeys& keys, std::chrono::nanoseconds of_others) {
  live_.clear();
  std::optional<Allowance> allowance;
  Allowance all(to_read_all);
  uid_t whose = 0;
  for (const File& file : files_) {                            // all of one user's, then all of the next one's
    const bool mine = file.uid == ::geteuid();
    if (!allowance || file.uid != whose) allowance.emplace(mine ? std::chrono::nanoseconds::max() : of_others);
    whose = file.uid;
    if ((!mine && all.over()) || !read(file, keys, *allowance)) unread_.insert(file.uid);
  }
}

// False when that was not all.
bool NoteBook::read(const File& file, const SlotKeys& keys, Allowance& allowance) {
  std::vector<unsigned> live;
  const bool all = find_live(file.fd.get(), allowance, live);
  for (unsigned index : live) {
    NoteRecord record;
    if (allowance.over()) return false;
    if (!read_live(file.fd.get(), index, record)) {
      if (write_locked(file.fd.get(), byte_of(index, live_byte))) return false;   // it lives, and cannot be read
      continue;
    }
    auto note = decode(record, keys, number_);
    if (!note) continue;
    note->process.uid = file.uid;
    live_.push_back(std::move(*note));
  }
  return all;
}

std::vector<const Note*> NoteBook::naming(unsigned slot, unsigned berth) const {
  std::vector<const Note*> found;
  for (const Note& note : live_)
    if (note.names(slot, berth) && !note.overdue) found.push_back(&note);
  return found;
}

const Note* NoteBook::believed(unsigned slot, unsigned berth, uid_t me, const MayBe& may_be) const {
  std::vector<const Note*> all = naming(slot, berth);
  std::erase_if(all, [&](const Note* note) { return !may_be(*note); });
  std::vector<const Note*> mine;
  std::copy_if(all.begin(), all.end(), std::back_inserter(mine), [&](const Note* note) { return note->process.uid == me; });
  if (!mine.empty()) return mine.size() == 1 ? mine.front() : nullptr;
  return all.size() == 1 && all_read_but_of(all.front()->process.uid) ? all.front() : nullptr;
}

const Note* names_holder(const NoteBook& notes, unsigned slot, unsigned berth, const Taker& taker) {
  const std::vector<const Note*> all = notes.naming(slot, berth);
  if (!taker.uid) return all.size() == 1 && notes.all_read_but_of(all.front()->process.uid) ? all.front() : nullptr;
  // A number can be used again; a number and a start time cannot, nor can anybody write in another's name. What started within
  // the same tick or the next one may be him only where nobody is exactly.
  using Same = bool (*)(std::uint64_t, std::uint64_t);
  const auto is_his = [&](const Note* note, Same same_start) {
    if (note->process.uid != *taker.uid) return false;
    return taker.start ? same_start(note->process.start, *taker.start)
                       : note->process.pid == static_cast<std::uint32_t>(taker.pid);
  };
  const auto exactly = [](std::uint64_t one, std::uint64_t other) { return one == other; };
  for (const Same same_start : {Same{exactly}, Same{is_same_start}}) {
    const auto his = std::ranges::find_if(all, [&](const Note* note) { return is_his(note, same_start); });
    if (his != all.end()) return *his;
  }
  return nullptr;
}

bool is_numbered_here(const Note& note, std::uint32_t our_namespace) {
  return note.process.pid_namespace == 0 || note.process.pid_namespace == our_namespace;
}

const Note* another_of_the_same_number(const std::vector<const Note*>& all, uid_t user, pid_t number) {
  const auto says_so = [&](const Note* note) {
    if (note->process.uid == user) return false;
    return note->process.pid == static_cast<std::uint32_t>(number) || !is_numbered_here(*note, own_pid_namespace());
  };
  const auto found = std::ranges::find_if(all, says_so);
  return found == all.end() ? nullptr : *found;
}

const Note* is_certainly_of(const NoteBook& notes, unsigned slot, unsigned berth, const Taker& taker) {
  const Note* his = names_holder(notes, slot, berth, taker);
  if (!his || !taker.uid) return his;
  const uid_t user = his->process.uid;
  const bool is_alone = !another_of_the_same_number(notes.naming(slot, berth), user, taker.pid);
  return is_alone && notes.all_read_but_of(user) ? his : nullptr;
}

}  // namespace thole::host
