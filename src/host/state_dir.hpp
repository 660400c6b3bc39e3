// The directory that holds the claims: which one, made how, and whether it can be trusted.
//
// How this works. `/run/thole` (root's, made by `thole init`) is THE directory, from the moment its `queue` has its name: that
// node is made last. Without it the users of a machine meet in the first of the fallback directories, made by whoever comes
// first; a directory named by hand or a personal one (a simulated machine, the inside of a claim) is used as it is. Two
// processes must never work in two directories for one machine, so
//   * a fallback is given up as soon as a better directory is complete, and nobody claims in one while `thole init` completes
//     `/run/thole` (current() is asked after every lock);
//   * no claim in `/run/thole` locks more than its own nodes there, for any other lock could be taken by a stranger to stop it.
//     Only root can delete that directory. `thole init` leaves a mark of root's beside it (lock_of()), so that users who find
//     the directory gone make no other one, and init itself looks for the holders of deleted nodes (lost_locks.hpp).
//   * every claim elsewhere keeps the guard of its directory: a read lock of some bytes of the PARENT (claims/guard.hpp).
//     Whoever finds the directory gone asks for it before making it anew, and whoever finds it emptied before making lock
//     nodes: kept means that it was lost under a living claim. (A lock in the directory itself would be deleted with it; a
//     flock of the parent would stop tmpfiles ageing there.) A stranger who keeps it so keeps a missing fallback from being
//     made, and names `thole init` as the cure.
//   * every claim in a fallback or named directory also has a shared flock of the directory, if nobody has an exclusive one:
//     either way tmpfiles ageing passes it by.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {

class AnyKeeper;

inline constexpr const char* init_hint = "sudo thole init";
inline constexpr const char* emptied = "the state directory was emptied while GPUs claimed in it are in use";

enum class DirKind {
  system,    // /run/thole: claims are safe between users
  fallback,  // made by the first user: advisory between friendly users
  named,     // --state-dir: as safe as its owner
  personal,  // 0700, one user: a simulated machine, or the inside of a claim; nodes are made on demand
};

// The paths of a machine's common directory; tests put them under a folder of their own.
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
  std::function<void(const char*)> step_hook = {};   // for tests: before one is made ("absent"), while it is not ("kept")

  static StateLocation common(StatePaths paths = {}) { return {Kind::common, std::move(paths), "", "", {}}; }
  static StateLocation named(std::string path) { return {Kind::named, {}, std::move(path), "", {}}; }
  static StateLocation personal(std::string root, std::string name) {
    return {Kind::personal, {}, std::move(root), std::move(name), {}};
  }
};

// An open directory that passed the checks: a real directory, of the expected owner, not writable by everybody, on a file
// system whose locks work.
struct StateDir {
  std::string path;
  DirKind kind = DirKind::named;
  Fd fd;
  uid_t owner = 0;
  bool mine = false;                    // I am its owner: I may add nodes (in the system's directory init alone does)
  dev_t dev = 0;
  ino_t ino = 0;
  std::vector<std::string> better;      // fallback: paths whose existence ends it …
  std::optional<StatePaths> common;     // … and where `thole init` makes one that does
  std::vector<std::string> cautions;

  // Does the path still name this directory, and has no better one appeared, nor is one completed? Asked after locking.
  bool current() const;

  // The locks of the directory that belong to a claim: none in the system's; the byte of the parent, the shared flock.
  std::vector<Fd> lock_for_claim() const;

  // True when nobody holds the directory, neither a living claim nor a claim's keeper. For whoever wants to delete it, or make
  // lock nodes anew.
  bool unused() const { return static_cast<bool>(lock_unused()); }
  // Who wants to delete it keeps this lock until it is deleted; empty where somebody holds the directory.
  Fd lock_unused() const;

  // Throws, saying `what`, when living claims belong to a directory of this path, be it this one or one that is lost: lock
  // nodes made now would give second owners.
  void refuse_if_claimed_in(const char* what) const;
  bool claimed_in(AnyKeeper& anybody) const;
};

// Opens the directory, making it first where that is ours to do. Throws Error(unavailable) naming the fix.
StateDir open_state_dir(const StateLocation& location);

// The same without making anything; nothing where there is none.
std::optional<StateDir> find_state_dir(const StateLocation& location);

// For whoever looks and finds no directory, or an empty one: throws when it was lost under a living claim.
void refuse_if_lost(const StateLocation& location);

// Is the system's directory complete?
bool is_complete(const StatePaths& paths);

// The system's directory as `thole init` works on it: made if there is none, and `mine`.
StateDir make_system_dir(const StatePaths& paths);

// The file that one `thole init` at a time has locked; root's alone. Beside the directory, where it outlives it: not empty, it
// says that the directory was complete once since the machine started.
std::string lock_of(const StatePaths& paths);
bool was_complete(const StatePaths& paths);

// nullptr when locks work on a file system of this statfs type, else why it is refused. `*caution` is set for one that works
// within limits.
const char* refuse_filesystem(long type, const char** caution);

}  // namespace thole::host
