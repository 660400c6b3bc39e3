// The directory that holds the claims: which one, made how, and whether it can be trusted.
//
// How this works. `/run/thole` (root's, made by `thole init`) is THE directory. Without it the users of a machine meet in the
// first of the fallback directories, made by whoever comes first; a directory named by hand or a personal one (a simulated
// machine, the inside of a claim) is used as it is. Two processes must never work in two directories for one machine, so
//   * a fallback is given up as soon as a better directory exists (current() is asked after every lock);
//   * every claim holds a read lock (OFD) on one byte of the PARENT directory, at an offset made of the directory's name.
//     Whoever finds the directory gone asks for that byte first: held means that it was deleted under a living claim, and no
//     new one is made beside it. (A lock in the directory itself would be deleted with it; a flock of the parent would stop
//     tmpfiles ageing there.)
//   * every claim (but those in personal directories) holds a shared flock of the directory: tmpfiles ageing skips it, and
//     nodes are not made anew meanwhile.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {

enum class DirKind {
  system,    // /run/thole: claims are safe between users
  fallback,  // made by the first user: advisory between friendly users
  named,     // --state-dir: as safe as its owner
  personal,  // 0700, one user: a simulated machine, or the inside of a claim; nodes are made on demand
};

// The places of a machine's common directory; tests put them under a folder of their own.
struct StatePaths {
  std::string system = "/run/thole";
  std::vector<std::string> fallbacks = {"/run/lock/thole", "/tmp/thole"};
  uid_t system_owner = 0;
};

// Where to look for the directory. Kept by a store, so that it can look again.
struct StateLocation {
  enum class Kind { common, named, personal } kind = Kind::common;
  StatePaths paths;         // common
  std::string path;         // named: the directory; personal: its root ("/run/user/1000/thole")
  std::string name;         // personal: the directory in that root

  static StateLocation common(StatePaths paths = {}) { return {Kind::common, std::move(paths), "", ""}; }
  static StateLocation named(std::string path) { return {Kind::named, {}, std::move(path), ""}; }
  static StateLocation personal(std::string root, std::string name) {
    return {Kind::personal, {}, std::move(root), std::move(name)};
  }
};

// An open directory that passed the checks: a real directory, of the expected owner, not writable by everybody, on a file
// system whose locks work.
struct StateDir {
  std::string path;
  DirKind kind = DirKind::named;
  Fd fd;
  uid_t owner = 0;
  bool mine = false;                    // I am its owner: I may add nodes
  dev_t dev = 0;
  ino_t ino = 0;
  std::vector<std::string> better;      // fallback: directories that take over as soon as they exist
  std::vector<std::string> cautions;

  // Does the path still name this directory, and has no better one appeared? Asked after locking.
  bool current() const;

  // The locks of the directory that belong to a claim: the byte of the parent, the shared flock.
  std::vector<Fd> hold() const;

  // True when no living claim holds the directory. For whoever wants to make lock nodes anew.
  bool unused() const;
};

// Opens the directory, making it first where that is ours to do. Throws Error(unavailable) naming the fix.
StateDir open_state_dir(const StateLocation& location);

// The same without making anything; nothing where there is none.
std::optional<StateDir> find_state_dir(const StateLocation& location);

// Makes `paths.system` (for its owner). Refuses while a claim lives in a fallback directory.
StateDir make_system_dir(const StatePaths& paths);

// nullptr when locks work on a file system of this statfs type, else why it is refused. `*caution` is set for one that works
// within limits.
const char* refuse_filesystem(long type, const char** caution);

}  // namespace thole::host
