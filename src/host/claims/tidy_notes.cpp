#include "host/claims/tidy_notes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/membership.hpp"
#include "host/claims/notes.hpp"

namespace thole::host {
namespace {

constexpr unsigned most_files_of_a_user = 16;
constexpr unsigned most_directories = 1 << 16;   // while somebody keeps making new ones
constexpr off_t largest_note = 1 << 18;

using Names = std::vector<std::string>;

Names entries_in(int directory) {
  Names names;
  Fd own = open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  std::unique_ptr<DIR, int (*)(DIR*)> listing(own ? ::fdopendir(own.get()) : nullptr, &::closedir);
  if (!listing) return names;
  own.release();
  while (const dirent* entry = ::readdir(listing.get()))
    if (std::string name = entry->d_name; name != "." && name != "..") names.push_back(std::move(name));
  return names;
}

// However deep: a directory that is found in one comes up beside it, and has its turn later.
void remove(int notes, Names wrong) {
  for (unsigned moved = 0; !wrong.empty() && moved < most_directories;) {
    const std::string name = std::move(wrong.back());
    wrong.pop_back();
    if (::unlinkat(notes, name.c_str(), 0) == 0) continue;
    if (Fd inner = open_at(notes, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
      for (const std::string& entry : entries_in(inner.get())) {
        if (::unlinkat(inner.get(), entry.c_str(), 0) == 0) continue;
        std::string beside = fmt::format(".init-{}-{}", ::getpid(), moved++);
        if (::renameat(inner.get(), entry.c_str(), notes, beside.c_str()) == 0) wrong.push_back(std::move(beside));
      }
    }
    ::unlinkat(notes, name.c_str(), AT_REMOVEDIR);
  }
}

// The locks that users hold, as far as their live notes say so and the kernel names nobody else.
class HeldByNote {
 public:
  explicit HeldByNote(const NotesPlace& about) : about_(about), locks_(kernel_locks(std::chrono::seconds{2})) {}

  // Does this file speak of a lock of its user, and no other file of his before it?
  bool speaks_first(int notes, const std::string& name, uid_t uid) {
    bool first = false;
    NoteBook book(open_at(notes, ".", O_RDONLY | O_DIRECTORY), about_.number);
    book.collect(name, uid);
    book.read(about_.keys);
    for (const Note& note : book.live())
      for (unsigned slot = 0; slot < model::max_slots; ++slot)
        if (note.names(slot) && is_held(slot, note.places[slot] - 1u, uid))
          first = spoken_of_.insert({uid, slot, note.places[slot]}).second || first;
    return first;
  }

 private:
  bool is_held(unsigned slot, unsigned place, uid_t uid) const {
    const std::string& key = about_.keys[slot];
    const std::string node = place == 0 ? gpu_node(key) : share_node(key, place - 1);
    const Fd fd = open_at(about_.directory, node.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const std::vector<pid_t> lockers = lockers_of(locks_.flocks, fd.get());
    if (lockers.empty() && !locks_.whole) return true;   // not known: then nothing of his is deleted
    const Taker taker = taker_among(lockers);
    if (lockers.empty())   // the list was too long, or changed while it was read
      return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
    return !taker.uid || *taker.uid == uid;
  }

  const NotesPlace& about_;
  KernelLocks locks_;
  std::set<std::tuple<uid_t, unsigned, unsigned>> spoken_of_;
};

}  // namespace

void tidy_notes(int notes, std::optional<gid_t> group, const NotesPlace& about) {
  std::map<uid_t, unsigned> files;
  std::map<uid_t, bool> members;
  HeldByNote held(about);
  Names wrong;
  for (const std::string& name : entries_in(notes)) {
    struct stat found;
    if (::fstatat(notes, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(found.st_mode) || !name.starts_with(std::to_string(found.st_uid) + "-") || found.st_size > largest_note) {
      wrong.push_back(name);
      continue;
    }
    auto [member, unknown] = members.try_emplace(found.st_uid, true);
    if (unknown && group) member->second = is_member(found.st_uid, *group);
    const bool speaks = held.speaks_first(notes, name, found.st_uid);
    const bool usual = member->second && ++files[found.st_uid] <= most_files_of_a_user;
    if (!speaks && !usual) wrong.push_back(name);
  }
  remove(notes, std::move(wrong));
}

}  // namespace thole::host
