#include "host/claims/claim_directory.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/claims/queue_file.hpp"
#include "host/claims/who_file.hpp"

namespace thole::host {
namespace {

constexpr const char* lock_lost = "a lock in the state directory was deleted, copied or made by hand while GPUs claimed in it "
                                  "are in use";

constexpr const char* may_be_claimed = "it may be claimed: the lock of its claims is lost";

// Who makes lost nodes anew, and how.
std::string init_of(const StateDir& dir) {
  if (dir.kind == DirKind::personal) return "thole init makes its nodes anew";
  if (dir.kind != DirKind::named) return init_hint;
  const std::string init = "thole --state-dir " + shell_quote(dir.path) + " init";
  return dir.mine ? init + " makes its nodes anew" : "its owner makes its nodes anew: " + init;
}

bool missing(int fd, const std::string& name) {
  struct stat found;
  if (::fstatat(fd, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return false;
  refuse_unseen(name, errno);
  return errno == ENOENT;
}

}  // namespace

ClaimDirectory::ClaimDirectory(StateDir dir, std::span<const std::string> keys) : state_(std::move(dir)) {
  if (state_.kind == DirKind::personal) {
    access_.mode = S_ISVTX | 0600;   // what ages files in /tmp leaves those of the sticky bit
    share_nodes_ = false;
    turn_nodes_ = 0;
  }
  if (state_.mine) complete(keys);
  else if (state_.kind != DirKind::system) wait_until_made();
  if (!alloc_) alloc_ = open_node("alloc", O_RDWR);
  queue_ = open_node("queue", O_RDWR);
  who_ = open_node("who", O_RDWR);
  for (auto [fd, name] : {std::pair{alloc_.get(), "alloc"}, {queue_.get(), "queue"}, {who_.get(), "who"}}) {
    if (fd < 0) cannot_open(name, ENOENT);
    check_file(fd, name);
  }
  refresh_slots();
  caution_of_unknown(keys);
}

void ClaimDirectory::caution_of_unknown(std::span<const std::string> keys) {
  for (const std::string& key : keys)
    if (!slot_of(key)) state_.cautions.push_back(key + " cannot be claimed before: " + init_hint);
}

// "the group video", for whoever the site's gate keeps out.
std::string ClaimDirectory::group_of(const std::string& name) const {
  struct stat found;
  if (::fstatat(state_.fd.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return "the group of this file";
  group entry{}, *known = nullptr;
  char buffer[4096];
  if (::getgrgid_r(found.st_gid, &entry, buffer, sizeof buffer, &known) == 0 && known)
    return std::string("the group ") + known->gr_name;
  return "the group " + std::to_string(found.st_gid);
}

// Of what is in the place of a file of the owner's. `sudo thole init` makes another directory.
std::string ClaimDirectory::way_to_replace(const std::string& name) const {
  if (state_.kind == DirKind::system) return init_hint;
  const std::string deletion = "rm -r " + shell_quote(path() + "/" + name);
  return state_.mine ? deletion + "; it is made anew" : "its owner makes it anew: " + deletion;
}

void ClaimDirectory::check_file(int fd, const std::string& name) const {
  struct stat found;
  if (::fstat(fd, &found) != 0)
    throw Error(ErrorCode::unavailable, "cannot look at").about(path() + "/" + name).because(errno).hint(mend_of_want(errno));
  if (!S_ISREG(found.st_mode) || found.st_uid != state_.owner)
    throw Error(ErrorCode::unavailable, "not a file of the directory's owner")
        .about(path() + "/" + name)
        .hint(way_to_replace(name));
}

void ClaimDirectory::cannot_open(const std::string& name, int reason) const {
  std::string hint = init_of(state_);
  if (is_want(reason)) hint = mend_of_want(reason);
  if (reason == EACCES || reason == EPERM) hint = "ask for membership in " + group_of(name);
  if (reason == ELOOP || reason == EISDIR || (reason == EACCES && state_.mine)) hint = way_to_replace(name);
  if (reason == EROFS)   // another directory knows nothing of whoever keeps GPUs in this one
    hint = "its file system has become read-only; what is claimed there stays so: mount it writable again";
  throw Error(ErrorCode::unavailable, reason == ENOENT ? "a node of the state directory is missing" : "cannot open")
      .about(path() + "/" + name).because(reason).hint(hint);
}

void ClaimDirectory::gpu_is_no_lock(unsigned slot) const {
  throw Error(ErrorCode::unavailable, "not a lock of the directory's owner").about(path() + "/" + gpu_names_[slot]).hint(
      init_of(state_));
}

Fd ClaimDirectory::open_node(const std::string& name, int flags) const {
  Fd fd = open_at(state_.fd.get(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!fd && errno != ENOENT && errno != ENXIO) cannot_open(name, errno);
  return fd;
}

Fd ClaimDirectory::open_or_make(const std::string& name, int flags, bool make) const {
  Fd fd = open_node(name, flags);
  if (fd || errno != ENOENT || !make || !state_.mine) return fd;
  maker().make_fifo(name);
  return open_node(name, flags);
}

Fd ClaimDirectory::open_share(unsigned slot, unsigned berth, int flags, bool make) const {
  return open_or_make(share_node(keys_[slot], berth), flags, make && !share_nodes_);
}

Fd ClaimDirectory::open_turn(unsigned index, int flags, bool make) const {
  Fd turn = open_or_make(turn_node(index), flags, make);
  struct stat found;   // it is written to: who made a fallback can have moved a file of mine there
  if (turn && ::fstat(turn.get(), &found) != 0) cannot_open(turn_node(index), errno);
  if (turn && !S_ISFIFO(found.st_mode)) return errno = ENOENT, Fd();
  return turn;
}

void ClaimDirectory::accept(std::uint64_t inode, unsigned slot) {
  const auto is_ours = [&] { return slot_nodes_[slot] == 0 || inode == slot_nodes_[slot]; };
  if (is_ours()) return;
  refresh_slots();
  if (is_ours()) return;
  state_.refuse_if_claimed_in(lock_lost);
  if (!state_.mine) return;
  slot_nodes_[slot] = 0;
  write_devices();
}

bool ClaimDirectory::replaced() const {
  return !named(alloc_.get(), "alloc") || !named(queue_.get(), "queue") || !named(who_.get(), "who");
}

// Another user is making it this very moment, or nobody ever finished it.
void ClaimDirectory::wait_until_made() {
  for (int i = 0; i < 200; ++i) {
    if (!missing(state_.fd.get(), "queue")) return;
    timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  throw Error(ErrorCode::unavailable, "the state directory was never finished").about(path()).hint(init_hint);
}

void ClaimDirectory::complete(std::span<const std::string> keys) {
  alloc_ = open_node("alloc", O_RDWR);
  if (!alloc_) alloc_ = maker().make_file("alloc");
  if (!alloc_) cannot_open("alloc", ENOENT);
  struct stat made;  // what comes later is like what is there
  if (::fstat(alloc_.get(), &made) == 0 && !access_.group && state_.kind != DirKind::personal) {
    access_.mode = made.st_mode & 0666;
    if (made.st_gid != ::getegid()) access_.group = made.st_gid;
  }
  refresh_slots();
  bool known = std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return slot_of(key).has_value(); });
  const auto is_there = [this](const char* name) { return !missing(state_.fd.get(), name); };
  if (known && is_there("who") && is_there("queue") && is_there("notes")) return;
  AllocPatience patience;   // where only one's own can keep it: on a busy machine they may take long to make a thousand nodes
  if (state_.kind == DirKind::personal) patience.give_up_after = Seconds(60);
  AllocLock lock(alloc_.get(), path(), patience, {});
  refresh_slots();
  refuse_if_emptied(keys);
  who_ = maker().make_file("who");
  make_notes();
  if (add_slots(keys)) write_devices();
  reserve_space();
  if (missing(state_.fd.get(), "queue")) make_fixed_nodes();
}

// Without `devices` nothing tells which locks were there.
void ClaimDirectory::refuse_if_emptied(std::span<const std::string> keys) const {
  if (std::any_of(keys_.begin(), keys_.end(), [](const std::string& key) { return !key.empty(); })) return;
  if (std::any_of(keys.begin(), keys.end(), [&](auto& key) { return is_key(key) && missing(state_.fd.get(), gpu_node(key)); }))
    state_.refuse_if_claimed_in(emptied);
}

void ClaimDirectory::make_fixed_nodes() {
  if (missing(state_.fd.get(), "devices")) write_devices();
  for (unsigned index = 0; index < turn_nodes_; ++index) maker().make_fifo(turn_node(index));
  // Complete before it gets its name: an unfinished `queue` would vouch for nodes that are not there.
  maker().replace_file("queue", [this](int queue) {
    if (!make_queue(queue))
      state_.cautions.push_back(path() + ": the disk is full; waiting is without order until there is space");
  });
}

// Everybody makes files of his own in it, and removes no other's. Without it nothing is shared, and the rest goes on.
void ClaimDirectory::make_notes() {
  const mode_t mode = state_.kind == DirKind::personal ? 01700 : access_.group ? 01770 : 01777;
  const int directory = state_.fd.get();
  if ((!make_directory_at(directory, "notes", 0700) && errno != EEXIST) ||
      (access_.group && ::fchownat(directory, "notes", static_cast<uid_t>(-1), *access_.group, AT_SYMLINK_NOFOLLOW) != 0) ||
      ::fchmodat(directory, "notes", mode, 0) != 0)
    state_.cautions.push_back(path() + "/notes cannot be made: GPUs are not shared, and names are not shown");
}

void ClaimDirectory::make_slot_nodes(const std::string& key) {
  maker().make_fifo(gpu_node(key));
  if (share_nodes_)
    for (unsigned berth = 0; berth < model::share_berths; ++berth) maker().make_fifo(share_node(key, berth));
}

bool ClaimDirectory::add_slots(std::span<const std::string> keys) {
  bool added = false;
  for (const std::string& key : keys) {
    if (!is_key(key)) throw Error(ErrorCode::internal, "not the name of a unit").about(key);
    if (slot_of(key)) continue;
    std::string* slot = free_slot(keys_);
    if (!slot)
      throw Error(ErrorCode::unavailable, "the state directory knows 128 units already").about(path()).hint(
          "sudo thole init recycles those that are gone");
    make_slot_nodes(key);
    *slot = key;
    added = true;
  }
  return added;
}

void ClaimDirectory::write_devices() {
  struct stat found;   // what is noted down stays: another node may have come in its place
  for (std::size_t slot = 0; slot < keys_.size(); ++slot)
    if (!keys_[slot].empty() && slot_nodes_[slot] == 0 &&
        ::fstatat(state_.fd.get(), gpu_node(keys_[slot]).c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0)
      slot_nodes_[slot] = found.st_ino;
  const std::string text = format_devices(keys_, slot_nodes_);
  maker().replace_file("devices", [&](int fd) { if (!write_all(fd, text)) maker().failed("cannot write", "devices"); },
                       state_.kind == DirKind::personal ? access_.mode : 0644);
  load_slots(text);
}

// Space is taken when the directory is made: a disk that fills up later costs no marks.
void ClaimDirectory::reserve_space() {
  if (state_.kind == DirKind::personal) return;
  if (!reserve_who(who_.get())) state_.cautions.push_back(path() + ": the disk is full; every look tries every GPU");
}

void ClaimDirectory::load_slots(const std::string& text) {
  keys_ = parse_devices(text);
  slot_nodes_ = parse_device_nodes(text);
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) gpu_names_[slot] = keys_[slot].empty() ? "" : gpu_node(keys_[slot]);
}

bool ClaimDirectory::refresh_slots() {
  // It is only ever replaced: the one we have open is the present one as long as it has its name.
  if (devices_ && named(devices_.get(), "devices")) return false;
  Fd fd = open_node("devices", O_RDONLY);
  if (!fd) return false;
  check_file(fd.get(), "devices");
  std::string text(32768, '\0');
  ssize_t size = ::pread(fd.get(), text.data(), text.size(), 0);
  if (size < 0) throw Error(ErrorCode::unavailable, "cannot read").about(path() + "/devices").because(errno);
  text.resize(static_cast<std::size_t>(size));
  load_slots(text);
  devices_ = std::move(fd);
  return true;
}

std::optional<unsigned> ClaimDirectory::slot_of(std::string_view key) const {
  auto found = std::find(keys_.begin(), keys_.end(), key);
  if (key.empty() || found == keys_.end()) return std::nullopt;
  return static_cast<unsigned>(found - keys_.begin());
}

ClaimDirectory::Lost ClaimDirectory::what_is_lost(std::span<const std::string> units) const {
  Lost lost;
  const auto add = [&](std::span<const std::string> keys, const char* why, const auto& refuse) {
    if (keys.empty()) return;
    try {
      refuse();
    } catch (const Error& error) {
      for (const std::string& key : keys) lost.units.push_back({key, why});
      if (lost.why.empty()) lost.why = error.full();
    }
  };
  std::vector<std::string> known, replaced, unlisted;
  for (unsigned slot = 0; slot < keys_.size(); ++slot) {
    const std::string& key = keys_[slot];
    struct stat node;
    if (key.empty()) continue;
    known.push_back(key);
    if (::fstatat(state_.fd.get(), gpu_names_[slot].c_str(), &node, AT_SYMLINK_NOFOLLOW) == 0) {
      if (!is_node(node))
        add({&key, 1}, "it cannot be claimed: its lock is not one of the directory's owner", [&] { gpu_is_no_lock(slot); });
      else if (slot_nodes_[slot] != 0 && slot_nodes_[slot] != node.st_ino) replaced.push_back(key);
    } else if (errno == ENOENT) {
      add({&key, 1}, may_be_claimed, [&] { gpu_is_missing(slot); });
    }
  }
  for (const std::string& key : units) {
    if (!is_key(key)) continue;
    if (known.empty() && missing(state_.fd.get(), gpu_node(key))) unlisted.push_back(key);
    else if (!state_.mine && !slot_of(key))
      lost.units.push_back({key, "it cannot be claimed: the state directory does not know it"});
  }
  add(replaced, may_be_claimed, [&] { state_.refuse_if_claimed_in(lock_lost); });
  add(unlisted, may_be_claimed, [&] { state_.refuse_if_claimed_in(emptied); });
  return lost;
}

unsigned ClaimDirectory::mend(std::span<const std::string> keys) {
  refresh_slots();
  const auto is_lost = [&](unsigned slot) {
    struct stat node;
    if (::fstatat(state_.fd.get(), gpu_names_[slot].c_str(), &node, AT_SYMLINK_NOFOLLOW) != 0)
      return refuse_unseen(path() + "/" + gpu_names_[slot], errno), true;
    return !is_node(node) || (slot_nodes_[slot] != 0 && node.st_ino != slot_nodes_[slot]);
  };
  bool lost = false;
  for (unsigned slot = 0; slot < keys_.size(); ++slot) {
    if (keys_[slot].empty() || !is_lost(slot)) continue;
    if (!std::exchange(lost, true)) state_.refuse_if_claimed_in(lock_lost);
    slot_nodes_[slot] = 0;
    struct stat other;
    if (::fstatat(state_.fd.get(), gpu_names_[slot].c_str(), &other, AT_SYMLINK_NOFOLLOW) == 0 && !is_node(other) &&
        ::unlinkat(state_.fd.get(), gpu_names_[slot].c_str(), S_ISDIR(other.st_mode) ? AT_REMOVEDIR : 0) != 0)
      maker().failed("cannot delete", gpu_names_[slot]);
  }
  for (const std::string& key : keys_)
    if (!key.empty()) make_slot_nodes(key);
  for (unsigned index = 0; index < turn_nodes_; ++index) maker().make_fifo(turn_node(index));
  make_notes();
  unsigned freed = 0;
  for (unsigned slot = 0; slot < keys_.size(); ++slot) {
    if (keys_[slot].empty() || std::find(keys.begin(), keys.end(), keys_[slot]) != keys.end()) continue;
    Fd fd = open_gpu(slot, O_RDWR);
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use although the driver no longer names it
    ::unlinkat(state_.fd.get(), gpu_names_[slot].c_str(), 0);
    for (unsigned berth = 0; berth < model::share_berths; ++berth)
      ::unlinkat(state_.fd.get(), share_node(keys_[slot], berth).c_str(), 0);
    keys_[slot].clear();
    slot_nodes_[slot] = 0;
    ++freed;
  }
  bool added = add_slots(keys);
  if (added || freed != 0 || lost) write_devices();
  reserve_space();
  return freed;
}

}  // namespace thole::host
