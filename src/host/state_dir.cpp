#include "host/state_dir.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/claims/announced.hpp"
#include "host/claims/guard.hpp"
#include "host/claims/layout.hpp"
#include "host/entries.hpp"
#include "host/own_directory.hpp"
#include "host/path.hpp"
#include "host/user_namespace.hpp"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

namespace thole::host {
namespace {

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Also where what lies on the way is closed to us.
bool exists(const std::string& path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) == 0) return true;
  refuse_unseen(path, errno);
  return false;
}

// Of a state directory; empty where it is closed to us (a home of mode 0711).
Fd open_parent_of(const StateDir& dir) {
  Fd parent = open_at(dir.fd.get(), "..", O_RDONLY | O_DIRECTORY);
  if (!parent) refuse_unseen(parent_of(dir.path), errno);
  return parent;
}

// Of a path; empty where there is none, and where a stranger's is in the place of a personal one, who can have any lock there.
Fd open_parent_of(const std::string& path, DirKind kind) {
  const bool personal = kind == DirKind::personal;
  Fd parent = open_at(AT_FDCWD, parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | (personal ? O_NOFOLLOW : 0));
  if (!parent) refuse_unseen(parent_of(path), errno);
  if (!parent || !personal) return parent;
  struct stat found;
  if (::fstat(parent.get(), &found) != 0)
    throw Error(ErrorCode::unavailable, "cannot look at").about(parent_of(path)).because(errno);
  if (found.st_uid != ::geteuid()) parent.reset();
  return parent;
}

std::optional<uid_t> owner_of(DirKind kind) {
  return kind == DirKind::personal ? std::optional(::geteuid()) : std::nullopt;
}

// Those who claim in it end, or root makes the machine's own directory.
[[noreturn]] void refuse(const char* what, const std::string& path, DirKind kind) {
  std::string pids;
  for (pid_t pid : keepers_anywhere({guard_of(path), owner_of(kind)}))
    pids += (pids.empty() ? "pid " : ", ") + std::to_string(pid);
  if (pids.empty()) pids = "their processes show as readers of " + parent_of(path) + " in lslocks";
  std::string lost = path;
  if (kind == DirKind::personal)   // it may have had any number
    lost = without_number(parent_of(path)) + path.substr(path.rfind('/'));
  throw Error(ErrorCode::unavailable, what).about(lost).hint(
      "wait until those claims have ended (" + pids + ")" +
      (kind == DirKind::fallback ? std::string(", or ") + init_hint : ""));
}

constexpr unsigned looks_for_it = 50, looks_while_completed = 500;

void pause_between_looks() {
  constexpr timespec pause{0, 10'000'000};
  ::nanosleep(&pause, nullptr);
}

// Throws when a living claim belongs to a directory of this name that is no longer there. First the lock, then the name: since
// the caller found none, another may have made the directory and claimed in it. A lock without a name may be that of somebody
// who is about to notice that his directory was swept; only one that stays tells of a deleted directory.
void refuse_if_deleted_under_a_claim(const StateLocation& location, const std::string& path) {
  const DirKind kind = location.kind == StateLocation::Kind::common     ? DirKind::fallback
                       : location.kind == StateLocation::Kind::personal ? DirKind::personal
                                                                        : DirKind::named;
  // What a stranger has put there is none of ours.
  const auto is_made = [&] { return kind == DirKind::personal ? find_state_dir(location).has_value() : exists(path); };
  AnyKeeper anybody({guard_of(path), owner_of(kind)});
  const Fd parent = open_parent_of(path, kind);
  for (unsigned look = 0; look < looks_for_it; ++look) {
    const bool kept = (parent && anybody.guard().is_kept_in(parent.get())) || anybody.lives();
    if (!kept || is_made()) return;
    if (location.step_hook) location.step_hook("kept");
    pause_between_looks();
  }
  refuse("the state directory was deleted while GPUs claimed in it are in use", path, kind);
}

// Existing ones win over better ones, but not where somebody claims in another one, wherever that is by now. (A lock may be
// that of somebody who is about to come to ours.)
void refuse_if_claimed_in_another(const StateLocation& location, const StateDir& dir) {
  for (const std::string& path : location.paths.fallbacks) {
    if (path == dir.path) continue;
    const Guard guard = guard_of(path);
    const Fd parent = open_parent_of(path, DirKind::fallback);
    unsigned looks = 0;
    while (parent && guard.is_kept_in(parent.get())) {
      if (++looks == looks_for_it) refuse("GPUs that are claimed in another directory are in use", path, DirKind::fallback);
      pause_between_looks();
    }
  }
}

// Makes the directory with exactly this mode whatever the umask. True when it is there afterwards, by us or by another.
bool make_with_mode(const std::string& path, mode_t mode) {
  if (!make_directory(path, 0700)) return errno == EEXIST;
  Fd made = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!made && errno == ENOENT) return true;   // and gone again: whoever opens it sees that
  return made && ::fchmod(made.get(), mode) == 0;
}

void make_parents(const std::string& path) {
  std::string parent = parent_of(path);
  if (parent == "/" || parent == "." || exists(parent)) return;
  make_parents(parent);
  if (!make_directory(parent, 0755) && errno != EEXIST)
    throw Error(ErrorCode::unavailable, "cannot make the state directory").about(parent).because(errno).hint(
        "name a directory that you can write to");
}

// The same for a directory of which claims keep the guard.
bool make_guarded(const StateLocation& location, const std::string& path, mode_t mode) {
  if (!exists(path)) {
    if (location.step_hook) location.step_hook("absent");
    refuse_if_deleted_under_a_claim(location, path);
  }
  if (location.kind == StateLocation::Kind::named) make_parents(path);
  return make_with_mode(path, mode);
}

void check_owner_and_mode(const StateDir& dir, const struct stat& found, uid_t system_owner) {
  if (dir.kind != DirKind::personal) refuse_hidden_owner(dir.path, found.st_uid);
  if (dir.kind == DirKind::system && found.st_uid != system_owner)
    throw Error(ErrorCode::unavailable, "the state directory does not belong to root").about(dir.path).hint(
        "have an administrator remove it, then " + std::string(init_hint));
  if (dir.kind == DirKind::personal && (found.st_uid != ::geteuid() || (found.st_mode & 077) != 0))
    throw Error(ErrorCode::unavailable, "this directory must be yours alone (mode 0700)").about(dir.path).hint(
        "remove it, or chmod 700 " + dir.path);
  if ((found.st_mode & S_IWOTH) != 0)
    throw Error(ErrorCode::unavailable, "everybody can write to the state directory, so its locks prove nothing")
        .about(dir.path).hint("chmod 755 " + dir.path + ", or name another directory");
}

void check_filesystem(StateDir& dir) {
  struct statfs fs;
  if (::fstatfs(dir.fd.get(), &fs) != 0)
    throw Error(ErrorCode::unavailable, "cannot tell the file system of the state directory").about(dir.path).because(errno);
  const char* caution = nullptr;
  if (const char* why = refuse_filesystem(fs.f_type, &caution))
    throw Error(ErrorCode::unavailable, why).about(dir.path).hint(
        dir.kind == DirKind::named ? "name a directory on a local disk or tmpfs" : init_hint);
  if (caution) dir.cautions.push_back(dir.path + ": " + caution);
}

// Opens and checks; nothing when there is no such directory.
std::optional<StateDir> open_checked(std::string path, DirKind kind, uid_t system_owner) {
  StateDir dir;
  dir.path = std::move(path);
  dir.kind = kind;
  dir.fd = open_at(AT_FDCWD, dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.fd) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP || errno == ENOTDIR)
      throw Error(ErrorCode::unavailable, "the state directory is a link or a file, put there by somebody").about(dir.path)
          .hint(kind == DirKind::named ? "name the directory itself" : "remove it, or " + std::string(init_hint));
    throw Error(ErrorCode::unavailable, "cannot open the state directory").about(dir.path).because(errno).hint(
        is_want(errno) ? mend_of_want(errno)
        : kind == DirKind::named           ? "name a directory that is open to you"   // init makes another one
                                           : init_hint);
  }
  struct stat found;
  if (::fstat(dir.fd.get(), &found) != 0)
    throw Error(ErrorCode::unavailable, "cannot look at the state directory").about(dir.path).because(errno);
  check_owner_and_mode(dir, found, system_owner);
  check_filesystem(dir);
  dir.owner = found.st_uid;
  dir.mine = found.st_uid == ::geteuid() && kind != DirKind::system;
  dir.dev = found.st_dev;
  dir.ino = found.st_ino;
  if (kind == DirKind::fallback)
    dir.cautions.push_back("claims are advisory between friendly users in " + dir.path + "; " + init_hint + " makes them safe");
  if (kind == DirKind::named && !dir.mine && dir.owner != 0)
    dir.cautions.push_back(dir.path + " belongs to another user, who could replace its locks");
  return dir;
}

std::string last_node_of(const StatePaths& paths) { return paths.system + "/queue"; }

bool is_being_completed(const StatePaths& paths) {
  const Fd system = open_at(AT_FDCWD, paths.system.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!system) refuse_unseen(paths.system, errno);
  return system && is_announced(system.get(), completing_file, paths.system_owner);
}

// The first fallback that exists. Existing ones win over better ones that could be made: others may hold claims there.
std::optional<StateDir> find_fallback(const StatePaths& paths) {
  for (std::size_t i = 0; i < paths.fallbacks.size(); ++i) {
    auto dir = open_checked(paths.fallbacks[i], DirKind::fallback, 0);
    if (!dir) continue;
    dir->better.assign(paths.fallbacks.begin(), paths.fallbacks.begin() + static_cast<std::ptrdiff_t>(i));
    dir->better.push_back(last_node_of(paths));
    dir->common = paths;
    return dir;
  }
  return std::nullopt;
}

StateDir open_common(const StateLocation& location) {
  const StatePaths& paths = location.paths;
  const auto complete = [&] {
    auto system = open_checked(paths.system, DirKind::system, paths.system_owner);
    if (system && !is_complete(paths)) system.reset();
    return system;
  };
  for (unsigned looks = 0;; ++looks) {
    if (auto system = complete()) return std::move(*system);
    if (!is_being_completed(paths)) {
      if (auto system = complete()) return std::move(*system);   // the queue has its name before that is over
      break;
    }
    if (looks == looks_while_completed)
      throw Error(ErrorCode::unavailable, "thole init is making the state directory still").about(paths.system)
          .hint("try again when it has ended");
    pause_between_looks();
  }
  if (was_complete(paths))   // its claims may live on: a fallback beside them would make second owners
    throw Error(ErrorCode::unavailable, "the state directory was deleted, or nodes in it").about(paths.system).hint(init_hint);
  // Two first users may make two different fallbacks at once. Whoever made one looks at the others afterwards and yields to
  // one further down the list; the other sees the better one after locking and comes up. One of the two always notices.
  const auto found = [&] {
    auto dir = find_fallback(paths);
    if (dir) refuse_if_claimed_in_another(location, *dir);
    return dir;
  };
  int reason = 0;
  for (std::size_t i = 0; i < paths.fallbacks.size(); ++i) {
    if (auto dir = found()) return std::move(*dir);
    for (const std::string& path : paths.fallbacks) refuse_if_deleted_under_a_claim(location, path);   // any of them
    if (!make_guarded(location, paths.fallbacks[i], 0755)) {
      reason = errno;
      continue;
    }
    for (std::size_t j = i + 1; j < paths.fallbacks.size(); ++j)
      if (exists(paths.fallbacks[j])) ::rmdir(paths.fallbacks[i].c_str());
  }
  if (auto dir = found()) return std::move(*dir);
  throw Error(ErrorCode::unavailable, "there is no state directory and none can be made").about(paths.system).because(reason)
      .hint(init_hint);
}

// The root of personal directories as all processes of the user find it now: the one that was found when this process began
// may have been lost since, and be another's, and a new one be settled. Nothing where there is none.
std::optional<std::string> find_root(const StateLocation& location) {
  const std::string root = without_trailing_slashes(location.path);
  const auto base = base_of_own_directory(root, ::geteuid());
  return base ? find_own_directory(*base, ::geteuid()) : root;
}

// The same, made where there is none.
std::string open_root(const StateLocation& location) {
  const std::string root = without_trailing_slashes(location.path);
  if (const auto base = base_of_own_directory(root, ::geteuid())) return open_own_directory(*base, name_another);
  if (!open_checked(root, DirKind::personal, 0) && !make_with_mode(root, 0700))
    throw Error(ErrorCode::unavailable, "cannot make the directory").about(root).because(errno);
  return root;
}

StateDir open_personal(const StateLocation& location) {
  for (unsigned tries = 0; tries < looks_for_it; ++tries) {   // a sweep may take it before it is opened
    const std::string root = open_root(location), path = root + "/" + location.name;
    if (!open_checked(root, DirKind::personal, 0)) continue;
    if (auto dir = open_checked(path, DirKind::personal, 0)) return std::move(*dir);
    if (!make_guarded(location, path, 0700) && errno != ENOENT)   // the root is gone again
      throw Error(ErrorCode::unavailable, "cannot make the directory").about(path).because(errno);
    if (auto dir = open_checked(path, DirKind::personal, 0)) return std::move(*dir);
  }
  throw Error(ErrorCode::unavailable, "the directory vanished").about(location.path + "/" + location.name);
}

// Thousands of files are made in it: not among those of somebody else (--state-dir /etc). Before the first of ours, `alloc`,
// it is empty, or has nothing but what a mounted disk has.
void refuse_of_others(const StateDir& dir) {
  const auto is_begun = [&] { return ::faccessat(dir.fd.get(), "alloc", F_OK, AT_SYMLINK_NOFOLLOW) == 0; };
  if (is_begun()) return;
  constexpr std::string_view ours[] = {"queue", "who", "devices", "notes", "lost+found"};
  constexpr std::string_view begin_so[] = {"gpu.", "share.", "turn."};
  const auto is_ours = [&](std::string_view name) {
    return std::ranges::find(ours, name) != std::end(ours) ||
           std::ranges::any_of(begin_so, [&](std::string_view begin) { return name.starts_with(begin); });
  };
  for (const std::string& name : entries_in(dir.fd.get()))
    if (!is_ours(name) && !is_begun())   // somebody else may have begun it since
      throw Error(ErrorCode::unavailable, "this directory has other files than thole's (" + printable(name, 40) + ")")
          .about(dir.path).hint("name an empty directory, or one that is yet to be made");
}

std::optional<StateDir> find_named(const StateLocation& location) {
  auto dir = open_checked(without_trailing_slashes(location.path), DirKind::named, 0);
  if (dir) refuse_of_others(*dir);
  return dir;
}

StateDir open_named(const StateLocation& location) {
  std::string path = without_trailing_slashes(location.path);
  if (auto dir = find_named(location)) return std::move(*dir);
  if (!make_guarded(location, path, 0755))
    throw Error(ErrorCode::unavailable, "cannot make the state directory").about(path).because(errno).hint(
        "name a directory that you can write to");
  if (auto dir = open_checked(path, DirKind::named, 0)) return std::move(*dir);
  throw Error(ErrorCode::unavailable, "the state directory vanished").about(path);
}

}  // namespace

const char* refuse_filesystem(long type, const char** caution) {
  *caution = nullptr;
  switch (static_cast<unsigned long>(type)) {
    case TMPFS_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC: return nullptr;
    case OVERLAYFS_SUPER_MAGIC:  // flock works there, but every container has its own
      *caution = "claims made here are not seen outside this container; bind-mount the host's /run/thole";
      return nullptr;
    case NFS_SUPER_MAGIC: return "locks on NFS do not hold";
    default: return "locks are not trusted on this file system (only tmpfs, ext4, xfs and btrfs)";
  }
}

bool StateDir::current() const {
  struct stat now;
  if (::lstat(path.c_str(), &now) != 0) return refuse_unseen(path, errno), false;
  if (now.st_ino != ino || now.st_dev != dev) return false;
  // Who comes by a link in the place of the user's directory has another one by now.
  if (kind == DirKind::personal) {
    if (::lstat(parent_of(path).c_str(), &now) != 0) return refuse_unseen(path, errno), false;
    if (!S_ISDIR(now.st_mode)) return false;
  }
  if (common && is_being_completed(*common)) return false;   // first: the queue has its name before that is over
  return std::ranges::none_of(better, exists);
}

std::vector<Fd> StateDir::lock_for_claim() const {
  std::vector<Fd> locks;
  if (kind == DirKind::system) return locks;
  Fd parent = open_parent_of(*this);
  struct flock guard = guard_of(path).lock(F_RDLCK);
  // A parent that cannot be read (a home of mode 0711) leaves the claim without this one protection.
  if (parent && ::fcntl(parent.get(), F_OFD_SETLK, &guard) == 0) locks.push_back(std::move(parent));
  else if (parent) refuse_unseen(parent_of(path), errno);
  // Nobody ages a personal directory, and no container sees it with another parent.
  if (kind == DirKind::personal && !locks.empty()) return locks;
  Fd self = open_at(fd.get(), ".", O_RDONLY | O_DIRECTORY);
  if (self && ::flock(self.get(), LOCK_SH | LOCK_NB) == 0) {
    locks.push_back(std::move(self));
  } else if (!self || errno != EWOULDBLOCK) {
    throw Error(ErrorCode::unavailable, "cannot lock the state directory")
        .about(path).because(errno).hint(mend_of_want(errno));
  }
  return locks;
}

Fd StateDir::lock_unused() const {
  const Fd parent = open_parent_of(*this);
  const auto is_kept = [&] { return parent && guard_of(path).is_kept_in(parent.get()); };
  if (is_kept()) return Fd();
  Fd self = open_at(fd.get(), ".", O_RDONLY | O_DIRECTORY);
  if (!self) refuse_unseen(path, errno);
  if (!self || ::flock(self.get(), LOCK_EX | LOCK_NB) != 0 || is_kept()) return Fd();   // since the first look, maybe
  return self;
}

// A claim's keeper has a lock on a personal directory that is none of a claim in it (inner.hpp).
bool StateDir::claimed_in(AnyKeeper& anybody) const {
  const Fd parent = open_parent_of(*this);
  const bool kept = kind == DirKind::personal && parent ? anybody.guard().is_kept_in(parent.get()) : !unused();
  return kept || anybody.lives();
}

void StateDir::refuse_if_claimed_in(const char* what) const {
  AnyKeeper anybody({guard_of(path), owner_of(kind)});
  for (unsigned look = 0; look < looks_for_it; ++look) {
    if (!claimed_in(anybody)) return;
    pause_between_looks();
  }
  refuse(what, path, kind);
}

bool is_complete(const StatePaths& paths) { return exists(last_node_of(paths)); }

std::string lock_of(const StatePaths& paths) { return paths.system + ".lock"; }

bool was_complete(const StatePaths& paths) {
  struct stat found;
  if (::lstat(lock_of(paths).c_str(), &found) != 0) return refuse_unseen(lock_of(paths), errno), false;
  return S_ISREG(found.st_mode) && found.st_uid == paths.system_owner &&
         found.st_size > 0;
}

StateDir make_system_dir(const StatePaths& paths) {
  const std::string unfinished = paths.system + ".new";   // with its name it is open to all
  ::rmdir(unfinished.c_str());
  if (!exists(paths.system) && make_with_mode(unfinished, 0755) && ::rename(unfinished.c_str(), paths.system.c_str()) != 0)
    ::rmdir(unfinished.c_str());
  if (!make_with_mode(paths.system, 0755))
    throw Error(ErrorCode::unavailable, "cannot make the state directory").about(paths.system).because(errno).hint(init_hint);
  Fd there = open_at(AT_FDCWD, paths.system.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat found;
  if (there && ::fstat(there.get(), &found) == 0 && found.st_uid == paths.system_owner && (found.st_mode & 07777) != 0755)
    (void)!::fchmod(there.get(), 0755);
  auto dir = open_checked(paths.system, DirKind::system, paths.system_owner);
  if (!dir) throw Error(ErrorCode::unavailable, "the state directory vanished").about(paths.system);
  dir->mine = true;
  return std::move(*dir);
}

std::optional<StateDir> find_state_dir(const StateLocation& location) {
  switch (location.kind) {
    case StateLocation::Kind::named: return find_named(location);
    case StateLocation::Kind::personal: {
      const auto root = find_root(location);
      return root ? open_checked(*root + "/" + location.name, DirKind::personal, 0) : std::nullopt;
    }
    case StateLocation::Kind::common: break;
  }
  auto system = open_checked(location.paths.system, DirKind::system, location.paths.system_owner);
  if (system && (is_complete(location.paths) || was_complete(location.paths))) return system;
  return find_fallback(location.paths);
}

void refuse_if_lost(const StateLocation& location) {
  std::vector<std::string> paths = location.paths.fallbacks;
  if (location.kind == StateLocation::Kind::named) paths = {without_trailing_slashes(location.path)};
  if (location.kind == StateLocation::Kind::personal)
    paths = {find_root(location).value_or(without_trailing_slashes(location.path)) + "/" + location.name};
  if (location.step_hook) location.step_hook("absent");
  for (const std::string& path : paths) refuse_if_deleted_under_a_claim(location, path);
  const auto dir = find_state_dir(location);
  if (!dir || dir->kind == DirKind::system) return;
  // Since the caller looked another may have made it and claimed in it: `queue` is made last, and in none that was emptied.
  AnyKeeper anybody({guard_of(dir->path), owner_of(dir->kind)});
  for (unsigned look = 0; look < looks_for_it; ++look) {
    if (::faccessat(dir->fd.get(), "queue", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || !dir->claimed_in(anybody)) return;
    if (location.step_hook) location.step_hook("kept");
    pause_between_looks();
  }
  refuse(emptied, dir->path, dir->kind);
}

StateDir open_state_dir(const StateLocation& location) {
  switch (location.kind) {
    case StateLocation::Kind::named: return open_named(location);
    case StateLocation::Kind::personal: return open_personal(location);
    case StateLocation::Kind::common: break;
  }
  return open_common(location);
}

}  // namespace thole::host
