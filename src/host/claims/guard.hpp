// The guard of a state directory: a read lock (OFD) that every claim in it keeps on its PARENT, where it outlives the
// directory.
//
// How this works. The lock begins at a byte made of the directory's name and is as long as a number made of its path, in which
// all the names that a user's own directory may have are one (own_directory.hpp): the directory that follows a lost one may
// have any of them, by what strangers have put in /tmp meanwhile, and a claim in either is a claim of the same. The byte
// answers whoever makes the directory anew in the same parent, with one F_OFD_GETLK. Where the parent itself was removed, moved
// or mounted over, the lock is on another directory: then the descriptors of the processes that this user can see tell. The
// kernel's table (/proc/locks) is not asked: strangers can keep a line of it from being read.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/claims/allowance.hpp"
#include "host/process/open_files.hpp"

namespace thole::host {

struct Guard {
  off_t begin = 0, length = 1;
  off_t length_as_written = length;                      // of the path with its number: older versions' claims keep it so

  struct flock lock(short type) const;
  bool is_kept_in(int parent) const;                     // by anybody
  bool is_in(std::string_view lock_line) const;          // one of /proc/locks or fdinfo, to its last number
};

// Whether the kernel's list of locks shows it, of whatever directory and by whomever.
bool is_listed(const Guard& guard);

// Does this descriptor keep it?
bool keeps_guard(pid_t pid, const char* fd, const Guard& guard);

// By the text of the path; a relative one counts from here.
Guard guard_of(const std::string& path);

// Whom we look for: those that keep it of whatever directory and see the same files as we do, for others have a directory of
// their own under this path.
struct KeeperOf {
  Guard guard;
  std::optional<uid_t> owner = {};       // whose personal directory it is; only who also has a lock there counts, for root sees
                                         // the descriptors of strangers
  std::optional<FileNumber> parent = {};   // known: who keeps it of this very directory counts whatever he sees
};

// What strangers' processes may cost root, who sees all of them: anybody can have any number of descriptors, of locks, which
// are told for each, and of new processes.
constexpr std::chrono::milliseconds for_strangers{1'000};

// One look at all processes for who keeps a guard, as far as this user can see them (root: all of its pid namespace). A process
// may hand the lock on to its child and end between two looks: so those that have come meanwhile are looked at until there are
// none.
class KeeperSearch {
 public:
  KeeperSearch(const KeeperOf& wanted, Allowance& strangers) : wanted_(wanted), strangers_(strangers) {}

  bool is_keeper(pid_t pid);

  // `visit` is told of each at once, for it may end the next moment, until it says false: then true. False: there is no further
  // one, as far as is known.
  bool each(const std::function<bool(pid_t)>& visit);

  // After that: whether all have been looked at.
  bool settled() const { return settled_; }      // else there always were new ones that may be keepers
  bool missed_any() const { return missed_ != 0; }   // strangers', for which there was no time
  std::string missed() const;                    // whose: "pid 12 (su) of anna"

 private:
  bool is_ours(pid_t pid) const;
  using IsIt = std::function<bool(pid_t thread, const OpenFile&)>;
  bool has_open_one(pid_t pid, const IsIt& is_it);

  const KeeperOf& wanted_;
  Allowance& strangers_;
  bool settled_ = false;
  pid_t missed_ = 0;                             // the first of them
};

std::vector<pid_t> keepers_anywhere(const KeeperOf& wanted);

// Is there any? For who asks again and again: the one who was found is asked first, which costs his descriptors alone, and the
// first that is found is answer enough.
class AnyKeeper {
 public:
  explicit AnyKeeper(const KeeperOf& wanted) : wanted_(wanted) {}
  const Guard& guard() const { return wanted_.guard; }
  bool lives();

 private:
  KeeperOf wanted_;
  Allowance strangers_{for_strangers};           // for all looks
  std::optional<pid_t> found_;
};

}  // namespace thole::host
