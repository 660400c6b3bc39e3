// Notes: what the owners of claims say of their claims, made live by the kernel.
//
// How this works. Everybody can write to `queue` and `who`, so nothing that matters is read from them. A note lies in a file of
// its claimer's own, `notes/<uid>-<8 hex>` of mode 0644, and is live while an OFD write lock lies on its first byte. Such a
// lock needs a descriptor that can write, so only the file's owner (or root) can set it; it ends with the last descriptor of
// its description, as the claim does. A reader asks with F_OFD_GETLK for a READ lock: that takes nothing, sees write locks
// only, and works under hidepid and across pid namespaces. So a live note means: this user says so, and his claim lives.
//
//   claim: open -> lock the record's second byte (taken) -> write the record -> lock its first byte (live)
//
// An old record never comes alive: its second byte is locked, and it is written, before. The lock's descriptor belongs to the
// claim, and has a higher number than all its other locks: at death the kernel closes from the highest number down, so no note
// outlives the lock of a unit (life below: the unit was free while the note lived in 2,476 of 3,000 kills; above: in none).
//
// Any reader can hinder the owner by a read lock of his own on the file. Then a new file is made 0600, locked, and opened to
// readers after; the old one goes where no live note is in it. What is planted in notes/ is none: a file counts only if it is a
// regular one that its owner alone can write. A record says for which directory and which keys it is meant, so a file of mine
// that somebody moves or links into another notes/ says nothing there. (Readers do not ask for the number of links: anybody
// could add one to a file of mine.)
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/layout.hpp"
#include "host/state_dir.hpp"

namespace thole::host {

// notes/ of a state directory; empty where there is none that can be trusted.
Fd open_notes(const StateDir& state);

// What tells one state directory from all others, for the records.
std::uint64_t number_of(const StateDir& state);

// The files of this user there, by their names. And is this file one of them?
std::set<std::pair<dev_t, ino_t>> files_for_notes(int directory, uid_t uid);
bool is_noted_in(int directory, uid_t uid, dev_t device, ino_t inode);

// Is the note of this claim live by this very open file? It is told from the file's other notes by the kernel, which does not
// tell a description of its own locks.
bool keeps_note(int fd, const std::string& id, const SlotKeys& keys, std::uint64_t number);

// The notes of this user in one directory: writes those of his claims. For one thread at a time.
class OwnNotes {
 public:
  OwnNotes(int directory, uid_t uid, std::uint64_t number) : directory_(directory), uid_(uid), number_(number) {}

  // Makes the note live. The descriptor that keeps it so has a number above `above`; empty when it cannot be (errno says why).
  Fd put(const Note& note, const SlotKeys& keys, int above);
  // Changes the live note of the claim `id`; false when there is none. Where the directory is closed to us by now, one that
  // this process keeps open.
  bool change(const std::string& id, const SlotKeys& keys, const std::function<void(Note&)>& how);

 private:
  Fd put_into(const std::string& name, const NoteRecord& record, int above);
  bool change_in(const Fd& fd, const std::string& id, const SlotKeys& keys, const std::function<void(Note&)>& how) const;
  Fd put_into_new(const NoteRecord& record, int above);

  int directory_;
  uid_t uid_;
  std::uint64_t number_;
  std::string name_;                   // the file that served last
};

// What others say. Reading has two halves, so that no stranger's thousand files are gone through under alloc: collect() finds
// the files with live notes, read() reads those again.
class NoteBook {
 public:
  // Without a directory nothing is noted.
  NoteBook(Fd directory, std::uint64_t number) : directory_(std::move(directory)), number_(number) {}

  void collect();
  bool collect_few();                           // all of them, if they are so few that it may be done under alloc
  void collect(uid_t uid);                 // those of one user, however many files
  void collect(const std::string& name, uid_t uid);   // those of one file
  void read(const SlotKeys& keys);
  void read(const SlotKeys& keys, std::chrono::nanoseconds of_others);   // so much for those of each other user

  const std::vector<Note>& live() const { return live_; }
  int directory() const { return directory_.get(); }
  bool empty() const { return files_.empty(); }   // no file has a live note
  // Users whose notes could not all be read: they are too many, or kept from being opened. Any berth may be theirs. Own notes,
  // root's and those of holders are read first; what those of others may cost is limited for each and for all together.
  const std::set<uid_t>& unread() const { return unread_; }
  // Could anybody but this user have a note that was not read?
  bool all_read_but_of(uid_t uid) const { return unread_.empty() || (unread_.size() == 1 && unread_.contains(uid)); }

  // The live notes of claims that are not over and name this berth of the slot (0 exclusively, k + 1 berth k).
  std::vector<const Note*> naming(unsigned slot, unsigned berth) const;
  // What is to be believed of the holder of a berth, of those notes that may be his: my own; else that of the only user who
  // names it. Empty: unknown.
  using MayBe = std::function<bool(const Note&)>;
  const Note* believed(unsigned slot, unsigned berth, uid_t me, const MayBe& may_be = [](const Note&) { return true; }) const;

 private:
  struct File {
    Fd fd;
    uid_t uid;
    ino_t ino;
  };
  void collect(const std::vector<std::string>& names, std::chrono::nanoseconds limit);   // of asking for locks
  void collect(uid_t uid, const std::vector<const std::string*>& names, Allowance& all);
  bool read(const File& file, const SlotKeys& keys, Allowance& allowance);
  void add(const std::string& name, uid_t uid);
  void clear();

  Fd directory_;
  std::uint64_t number_;
  std::vector<File> files_;
  std::vector<Note> live_;
  std::set<uid_t> unread_;
};

// The note of whoever holds this berth, if that is certain. The kernel first: it names the process that took the lock, and then
// only a note of its user counts that says the same process. Where the kernel names nobody, the only note there is.
const Note* names_holder(const NoteBook& notes, unsigned slot, unsigned berth, const Taker& taker);

// Is the number of a claim's own process one of this pid namespace? It is of that in which the claim was made; the start of the
// process counts in all of them.
bool is_numbered_here(const Note& note, std::uint32_t our_namespace);

// One of these of another user that says the same number of its process, or one of another pid namespace, which tells nothing
// here: either has taken the lock.
const Note* another_of_the_same_number(const std::vector<const Note*>& all, uid_t user, pid_t number);

// names_holder, where something is decided by it: the number that the kernel has may be another's by now, who notes what he
// likes. So it is certain only where all notes of others were read, and none of them that names this berth says that number.
const Note* is_certainly_of(const NoteBook& notes, unsigned slot, unsigned berth, const Taker& taker);

}  // namespace thole::host
