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

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/process/open_files.hpp"

namespace thole::host {

struct Guard {
  off_t begin = 0, length = 1;
  off_t length_as_written = length;                      // of the path with its number: older versions' claims keep it so

  struct flock lock(short type) const;
  bool is_kept_in(int parent) const;                     // by anybody
  bool is_in(std::string_view lock_line) const;          // one of /proc/locks or fdinfo, to its last number
};

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

// As far as this user can see them (root: all of its pid namespace).
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
  std::optional<pid_t> found_;
};

}  // namespace thole::host
