#include "host/store/queue_dir.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/own_directory.hpp"
#include "host/path.hpp"
#include "host/user_name.hpp"
#include "host/user_namespace.hpp"

namespace thole::host {

namespace {

// Not in linux/magic.h of every distribution.
constexpr unsigned long xfs = 0x58465342, zfs = 0x2fc12fc1, bcachefs = 0xca451a4e, ramfs = 0x858458f6;

std::string queue_name(const QueuePaths& paths) {
  std::string name = paths.host.empty() ? "localhost" : paths.host;
  if (!paths.machine.empty()) name += "+" + paths.machine;
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

// A directory that may hold queues. `root` belongs to the user alone and is made and checked; what is below is made.
struct Candidate {
  enum class Kind { named, home, by_init, temporary } kind;   // temporary: below /var/tmp, under a name of our own there
  std::string root, below;
  bool moved() const { return kind == Kind::by_init || kind == Kind::temporary; }
  std::string path() const { return root + below; }
};
using CandidateKind = Candidate::Kind;

constexpr const char* another = "name another directory: --queue-dir, THOLE_QUEUE_DIR";

[[noreturn]] void cannot(const std::string& path, const std::string& what, int why = 0) {
  throw Error(ErrorCode::unavailable, what)
      .about(path)
      .because(why)
      .hint(another);
}

// Nothing where the user has nothing: what lasts (it is not there, or not for him) and no passing trouble, for which one queue
// would be passed over and another one begun.
std::optional<struct stat> what_is_at(const std::string& path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) == 0) return found;
  for (const int lasting : {ENOENT, ENOTDIR, EACCES, ELOOP, ENAMETOOLONG})
    if (errno == lasting) return std::nullopt;
  cannot(path, "cannot see whether a queue is there", errno);
}

bool is_there(const std::string& path) { return what_is_at(path).has_value(); }

std::vector<Candidate> candidates(const QueuePaths& paths) {
  if (!paths.named.empty()) return {{CandidateKind::named, paths.named, ""}};
  std::vector<Candidate> all;
  const std::string name = "/" + queue_name(paths), below = "/queue" + name;
  if (!paths.state_home.empty()) all.push_back({CandidateKind::home, paths.state_home + "/thole/queue", name});
  all.push_back({CandidateKind::by_init, fmt::format("{}/{}", paths.var_lib, paths.uid), below});
  // There anybody can have made any directory: only one that is ours is looked into.
  all.push_back({CandidateKind::temporary, find_own_directory(paths.temporary, paths.uid).value_or(""), below});
  return all;
}

// By the first group of an account of this machine; what a directory service has is not all listed.
bool is_of_another_account(gid_t gid, uid_t uid) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(::fopen("/etc/passwd", "re"), ::fclose);
  std::vector<char> text(1 << 16);
  passwd entry{}, *found = nullptr;
  while (file && ::fgetpwent_r(file.get(), &entry, text.data(), text.size(), &found) == 0)
    if (found->pw_gid == gid && found->pw_uid != uid) return true;
  return false;
}

// Who has a group of his own (as most distributions give it) shares with nobody what it may write.
bool is_own_group(gid_t gid, uid_t uid) {
  std::vector<char> text(1 << 16);
  passwd user{}, *his = nullptr;
  if (::getpwuid_r(uid, &user, text.data(), text.size(), &his) != 0 || !his || his->pw_gid != gid) return false;
  const std::string name = his->pw_name;
  group entry{}, *members = nullptr;
  if (::getgrgid_r(gid, &entry, text.data(), text.size(), &members) != 0 || !members) return false;
  for (char** member = members->gr_mem; *member; ++member)
    if (name != *member) return false;
  return name == members->gr_name && !is_of_another_account(gid, uid);
}

// An access list gives its users what the group's bits allow at most.
bool has_access_list(const std::string& path) {
  return ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// A directory, or a link: that is its owner's to exchange in a directory for all (/tmp), too.
void check_one_above(const std::string& path, uid_t uid) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) cannot(path, "cannot look at a directory above the queue's", errno);
  const bool by_owner = found.st_uid != uid && found.st_uid != 0 && is_known_owner(found.st_uid);
  const bool is_link = S_ISLNK(found.st_mode);
  const bool by_all = !is_link && (found.st_mode & 0002) != 0;
  const bool by_group = !is_link && (found.st_mode & 0020) != 0 && (!is_own_group(found.st_gid, uid) || has_access_list(path));
  if (!by_owner && ((!by_all && !by_group) || (found.st_mode & S_ISVTX) != 0)) return;
  const std::string mend = by_owner ? "" : "chmod " + std::string(by_all ? "o-w " : "g-w ") + shell_quote(path) + "; or ";
  throw Error(ErrorCode::unavailable, "others can put another directory in the place of the queue's")
      .about(path)
      .hint(mend + another);
}

// Whoever may rename what lies above could put a directory of his own in its place, with jobs of his for our runner. Each
// directory on the way as it is written, and where links lead, as far as they are there.
void check_above(const std::string& path, uid_t uid) {
  std::string at = "/";
  std::vector<std::string> ahead;   // names, the next one last
  const auto put = [&](const std::string& text) {
    const auto names = split(text, '/');
    for (std::size_t i = names.size(); i-- > 0;) ahead.emplace_back(names[i]);
  };
  put(std::filesystem::absolute(path).string());
  for (unsigned steps = 0; !ahead.empty() && steps < 4096; ++steps) {
    const std::string name = std::move(ahead.back());
    ahead.pop_back();
    if (name.empty() || name == ".") continue;
    if (name == "..") { at = std::filesystem::path(at).parent_path().string(); continue; }
    check_one_above(at, uid);
    const std::string next = (at == "/" ? "" : at) + "/" + name;
    if (!is_there(next)) return;
    std::error_code none;
    const std::filesystem::path target = std::filesystem::read_symlink(next, none);
    if (none) { at = next; continue; }
    check_one_above(next, uid);
    if (target.is_absolute()) at = "/";
    put(target.string());
  }
}

void check(const std::string& path, uid_t uid) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) cannot(path, "cannot look at the queue's directory", errno);
  if (!S_ISDIR(found.st_mode)) cannot(path, "the queue's directory is no directory");
  if (found.st_uid != uid) cannot(path, "the queue's directory belongs to somebody else");
  if ((found.st_mode & 077) != 0)
    throw Error(ErrorCode::unavailable, "others can look into the queue's directory").about(path).hint("chmod 700 " + path);
  check_above(path, uid);
}

// Makes the directory and those above it, each with its name on the disk.
void make(const std::string& path) {
  if (is_there(path)) return;
  const std::string parent = parent_of(path);
  if (parent != path) make(parent);
  if (!make_directory(path, 0700) && errno != EEXIST) cannot(path, "cannot make the queue's directory", errno);
  Fd above = open_at(AT_FDCWD, parent.c_str(), O_RDONLY | O_DIRECTORY);
  if (above) ::fsync(above.get());
}

// Whether the directory is there and ours to write, or could be made.
bool can_be_written(const std::string& path) {
  std::string there = path;
  while (!is_there(there) && there != "/" && there != ".") there = parent_of(there);
  struct stat found;
  return ::stat(there.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         ::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

// With the cure for what `sudo` has left in a home: a directory of root's on the way to the state home.
std::string not_writable(const QueuePaths& paths) {
  for (std::string at = paths.state_home; at.size() > 1; at = parent_of(at)) {
    struct stat found, above;
    if (::lstat(at.c_str(), &found) != 0 || found.st_uid != 0 || paths.uid == 0) continue;
    if (::lstat(parent_of(at).c_str(), &above) == 0 && above.st_uid == paths.uid)
      return fmt::format("{} is root's (sudo chown -R {} {})", at, user_name(paths.uid), shell_quote(at));
  }
  return paths.state_home + " cannot be written";
}

// Why no queue is made in the state home; "" where one would be.
std::string why_not_home(const QueuePaths& paths) {
  if (paths.state_home.empty()) return paths.no_state_home;
  if (paths.disk(paths.state_home) == Disk::foreign) return paths.state_home + " is on no local disk";
  return can_be_written(paths.state_home + "/thole/queue") ? "" : not_writable(paths);
}

QueueDir described(const QueuePaths& paths, const Candidate& candidate) {
  QueueDir dir{candidate.path(), candidate.moved(), "", {}, ""};
  const std::string home = why_not_home(paths);
  if (candidate.moved() && !home.empty()) {
    dir.cautions.push_back(fmt::format("{}, so the queue of this host lies in {}", home, dir.path));
    if (paths.state_home.empty() || paths.disk(paths.state_home) != Disk::foreign) dir.unexpected = dir.cautions.back();
  }
  if (candidate.kind == CandidateKind::temporary && home.empty()) {
    dir.cautions.push_back(fmt::format("the queue of this host was made in {} when there was no home that could be written, "
                                       "and stays there", dir.path));
    dir.unexpected = dir.cautions.back();
  }
  if (paths.disk(dir.path) == Disk::gone_after_reboot)
    dir.cautions.push_back(fmt::format("{} is in memory: the queue is gone after a reboot", dir.path));
  return dir;
}

bool belongs_to(const std::string& path, uid_t uid) {
  const auto found = what_is_at(path);
  return found && S_ISDIR(found->st_mode) && found->st_uid == uid;
}

// The first that holds a queue. Whose it is comes before what is in it: what others have put somewhere is not looked at. What
// was named by hand is looked at in any case, and refused where it must be.
// One that is named and cannot be looked into may hold the queue: that is not the same as none.
const Candidate* existing(const std::vector<Candidate>& all, uid_t uid) {
  for (const Candidate& candidate : all) {
    const bool is_named = candidate.kind == CandidateKind::named;
    if (!is_named && !belongs_to(candidate.root, uid)) continue;
    if (is_there(candidate.path() + "/queue.db")) return &candidate;
    if (is_named && errno == EACCES) cannot(candidate.path(), "the queue's directory cannot be looked into", EACCES);
  }
  return nullptr;
}

// Where a queue is made when there is none.
Candidate to_be_made(const QueuePaths& paths) {
  for (Candidate& candidate : candidates(paths)) {
    if (candidate.kind == CandidateKind::home && !can_be_written(candidate.root)) continue;
    if (candidate.kind == CandidateKind::by_init && !belongs_to(candidate.root, paths.uid)) continue;
    if (paths.disk(candidate.kind == CandidateKind::temporary ? paths.temporary : candidate.root) != Disk::foreign)
      return candidate;
    if (candidate.kind == CandidateKind::named) cannot(candidate.root, "a queue needs a local disk, and this is none");
  }
  cannot(paths.temporary, "no local disk was found for the queue");
}

void make_root(Candidate& candidate, const QueuePaths& paths) {
  if (candidate.kind == CandidateKind::temporary) {
    candidate.root = open_own_directory(paths.temporary, another);
    const Fd above = open_at(AT_FDCWD, paths.temporary.c_str(), O_RDONLY | O_DIRECTORY);
    if (above) ::fsync(above.get());
  } else {
    check_above(candidate.root, paths.uid);   // root would make it in anybody's home, and that user could not use it then
    make(candidate.root);
  }
  check(candidate.root, paths.uid);
}

}  // namespace

Disk disk_of(const std::string& path) {
  struct statfs fs;
  std::string there = path;
  while (::statfs(there.c_str(), &fs) != 0) {
    const bool can_be_above = says_absent(errno) || errno == EACCES;
    refuse_unseen(there, errno);
    if (!can_be_above || there == "/" || there == ".") return Disk::foreign;
    there = parent_of(there);
  }
  switch (static_cast<unsigned long>(fs.f_type)) {
    case EXT4_SUPER_MAGIC:                       // ext2 and ext3 too
    case xfs:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case zfs:
    case bcachefs:
    case OVERLAYFS_SUPER_MAGIC: return Disk::local;
    case TMPFS_MAGIC:
    case ramfs: return Disk::gone_after_reboot;
    default: return Disk::foreign;               // NFS, SMB, Lustre, FUSE and all that is not known
  }
}

std::optional<QueueDir> find_queue_dir(const QueuePaths& paths) {
  const auto all = candidates(paths);
  const Candidate* found = existing(all, paths.uid);
  if (!found) return std::nullopt;
  check(found->root, paths.uid);
  if (paths.disk(found->path()) == Disk::foreign)
    cannot(found->path(), "this queue is on no local disk, where it cannot be used safely");
  return described(paths, *found);
}

QueueDir open_queue_dir(const QueuePaths& paths) {
  if (auto found = find_queue_dir(paths)) return std::move(*found);
  Candidate candidate = to_be_made(paths);
  make_root(candidate, paths);
  make(candidate.path());
  check_above(candidate.path(), paths.uid);
  return described(paths, candidate);
}

QueueDir expected_queue_dir(const QueuePaths& paths) {
  if (auto found = find_queue_dir(paths)) return std::move(*found);
  Candidate candidate = to_be_made(paths);
  ExpectedDirectory own;
  if (candidate.kind == CandidateKind::temporary) {
    own = expected_own_directory(paths.temporary, paths.uid, another);
    candidate.root = own.path;
  }
  QueueDir dir = described(paths, candidate);
  dir.taken = own.taken;
  return dir;
}

std::vector<std::string> other_queues(const QueuePaths& paths) {
  std::vector<std::string> others;
  const std::string name = queue_name(paths), of_machine = name.substr(std::min(name.find('+'), name.size()));
  std::string used;
  if (const auto found = find_queue_dir(paths)) used = found->path;
  for (const Candidate& candidate : candidates(paths)) {
    if (candidate.kind == CandidateKind::named || !belongs_to(candidate.root, paths.uid)) continue;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(parent_of(candidate.path()), none)) {
      const std::string other = entry.path().filename();
      if (other.substr(std::min(other.find('+'), other.size())) == of_machine && entry.path() != used &&
          is_there(entry.path().string() + "/queue.db"))
        others.push_back(entry.path());
    }
  }
  std::ranges::sort(others);
  return others;
}

}  // namespace thole::host
