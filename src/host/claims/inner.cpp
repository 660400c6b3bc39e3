#include "host/claims/inner.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/want.hpp"
#include "host/entries.hpp"

namespace thole::host {
namespace {

constexpr const char* outer_file = "outer";

std::string personal_root(const ClaimStoreOptions& options) {
  if (!options.personal_root) throw Error(ErrorCode::internal, "a store without a personal directory");
  return options.personal_root();
}

bool is_claim_id(std::string_view name) {
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void mark_inner(const StateDir& directory, const std::string& outer) {
  Fd file = create_at(directory.fd.get(), outer_file, O_WRONLY | O_NOFOLLOW, 0600);
  struct stat found;   // empty: new, or its maker was killed before he wrote it; all write the same
  if (file && ::fstat(file.get(), &found) == 0 && found.st_size == 0) (void)!::write(file.get(), outer.data(), outer.size());
}

// Has it a mark? One of a maker who was killed before he wrote it is empty.
bool is_marked(int root, const std::string& name) {
  struct stat found;
  if (::fstatat(root, (name + "/" + outer_file).c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return found.st_size != 0;
  return !says_absent(errno);
}

// What the directory says it lies in; "" when it says nothing.
std::string outer_of(int root, const std::string& name) {
  Fd file = open_at(root, (name + "/" + outer_file).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  char text[4096];
  ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  return std::string(text, size > 0 ? static_cast<std::size_t>(size) : 0);
}

// Does any claim live that has a note of its own in it (note_in_own_directory)?
bool has_live_note(int directory) {
  for (const std::string& entry : entries_in(directory)) {
    Fd file = open_at(directory, entry.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (file ? ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK : says_nothing(errno)) return true;
  }
  return false;
}

// Locked, where nobody claims in it, and it is kept neither by a keeper nor by a note. Their locks are seen from everywhere;
// the claim itself is not where it is held in a directory that this process does not see (another mount namespace).
Fd lock_abandoned(int root, const std::string& root_path, const std::string& name) {
  StateDir directory;
  directory.path = root_path + "/" + name;
  directory.fd = open_at(root, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  Fd lock = directory.fd ? directory.lock_unused() : Fd();
  if (!lock || has_live_note(lock.get()) || !named(root, name.c_str(), lock.get())) return Fd();
  return lock;
}

// The whole directory, locked until it is gone; it is ours, and only `notes` in it is another.
bool remove(int root, const std::string& name, const Fd& directory) {
  for (const std::string& entry : entries_in(directory.get())) {
    if (entry == outer_file || ::unlinkat(directory.get(), entry.c_str(), 0) == 0 || errno != EISDIR) continue;
    if (Fd inner = open_at(directory.get(), entry.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
      for (const std::string& file : entries_in(inner.get())) ::unlinkat(inner.get(), file.c_str(), 0);
    ::unlinkat(directory.get(), entry.c_str(), AT_REMOVEDIR);
  }
  ::unlinkat(directory.get(), outer_file, 0);  // last: a sweep cut short is finished by the next
  return ::unlinkat(root, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

StateLocation inner_location(const ClaimStoreOptions& options, const std::string& claim_id) {
  if (!is_claim_id(claim_id)) throw Error(ErrorCode::usage, "not the id of a claim").about(claim_id);
  return StateLocation::personal(personal_root(options), claim_id);
}

InnerDirectory open_inner_directory(const StateLocation& location, const std::string& outer) {
  for (;;) {
    StateDir directory = open_state_dir(location);
    Fd making = open_at(directory.fd.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!making) throw Error(ErrorCode::unavailable, "cannot open").about(directory.path).because(errno);
    if (location.step_hook) location.step_hook("inner directory opened");
    if (!lock_as_keeper(making.get())) continue;   // swept since it was opened
    mark_inner(directory, outer);
    return {std::move(directory), std::move(making)};
  }
}

Fd note_in_own_directory(const ClaimStoreOptions& options, const StateDir& outer, const Note& note, const SlotKeys& keys,
                         int above) {
  const InnerDirectory own = open_inner_directory(inner_location(options, note.id), outer.path);
  return OwnNotes(own.directory.fd.get(), ::geteuid(), number_of(outer)).put(note, keys, above);
}

Fd find_own_directory_of(const ClaimStoreOptions& options, const std::string& claim_id) {
  if (!is_claim_id(claim_id)) return Fd();
  try {
    auto own = find_state_dir(inner_location(options, claim_id));
    return own ? std::move(own->fd) : Fd();
  } catch (const Error& error) {   // another's, or open to others: then none
    if (says_nothing(error.sys_errno())) throw;
    return Fd();
  }
}

void remove_inner_directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || !is_claim_id(path.substr(slash + 1))) return;
  Fd root = open_at(AT_FDCWD, path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const std::string name = path.substr(slash + 1);
  if (!root) return;
  if (const Fd directory = lock_abandoned(root.get(), path.substr(0, slash), name)) remove(root.get(), name, directory);
}

bool lock_as_keeper(int directory) {
  struct stat found;
  while (::flock(directory, LOCK_SH) != 0) {  // a sweep has it for a moment
    if (errno == EINTR) continue;
    refuse_unseen("a claim's directory", errno);
    return true;                              // a file system without locks: nothing is swept there
  }
  return ::fstat(directory, &found) == 0 && found.st_nlink != 0;
}

Fd keep_from_sweeps(const StateDir& directory) {
  if (directory.kind != DirKind::personal) return Fd();
  Fd self = open_at(directory.fd.get(), ".", O_RDONLY | O_DIRECTORY);
  if (!self) throw Error(ErrorCode::unavailable, "cannot open").about(directory.path).because(errno).hint(mend_of_want(errno));
  lock_as_keeper(self.get());
  return self;
}

void sweep_unmarked(const std::string& root_path, const std::function<bool(const std::string& id)>& lives) {
  Fd root = open_at(AT_FDCWD, root_path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat found;
  if (!root || ::fstat(root.get(), &found) != 0 || found.st_uid != ::geteuid()) return;
  std::vector<std::pair<std::string, Fd>> dead;  // locked: no new keeper or maker comes in before we are done
  for (const std::string& name : entries_in(root.get())) {
    if (!is_claim_id(name) || is_marked(root.get(), name)) continue;
    Fd directory = open_at(root.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!directory || ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0 || is_marked(root.get(), name)) continue;
    if (!named(root.get(), name.c_str(), directory.get())) continue;   // made anew since it was opened
    std::vector<std::string> entries = entries_in(directory.get());
    std::erase(entries, outer_file);
    if (entries.empty() || entries == std::vector<std::string>{"control"}) dead.emplace_back(name, std::move(directory));
  }
  for (const auto& [name, directory] : dead) {
    const bool has_socket = ::faccessat(directory.get(), "control", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (has_socket && lives(name)) continue;  // its command lives on and may claim inside
    ::unlinkat(directory.get(), "control", 0);
    ::unlinkat(directory.get(), outer_file, 0);
    ::unlinkat(root.get(), name.c_str(), AT_REMOVEDIR);
  }
}

void sweep_inner_directories(const ClaimStoreOptions& options, const std::string& outer,
                             const std::function<bool(const std::string& id)>& lives) {
  const std::string root_path = personal_root(options);
  Fd root = open_at(AT_FDCWD, root_path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat found;
  if (!root || ::fstat(root.get(), &found) != 0 || found.st_uid != ::geteuid()) return;
  // What was claimed within a dead claim is dead once that has gone: until nothing more goes.
  for (bool removed = true; std::exchange(removed, false);) {
    std::vector<std::string> ours, dead;
    for (const std::string& name : entries_in(root.get())) {
      if (!is_claim_id(name)) continue;
      std::string lies_in = outer_of(root.get(), name);
      if (lies_in == outer) ours.push_back(name);
      else if (!lies_in.empty() && ::access(lies_in.c_str(), F_OK) != 0 && errno == ENOENT) dead.push_back(name);
    }
    std::erase_if(ours, lives);
    dead.insert(dead.end(), ours.begin(), ours.end());
    for (const std::string& name : dead)   // else somebody inside lives on: next time
      if (const Fd directory = lock_abandoned(root.get(), root_path, name)) {
        if (options.step_hook) options.step_hook("abandoned");
        removed = remove(root.get(), name, directory) || removed;
      }
  }
  sweep_unmarked(root_path, lives);
}

}  // namespace thole::host
