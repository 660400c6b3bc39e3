#include "host/store/queue_dir.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

// Not in linux/magic.h of every distribution.
constexpr unsigned long xfs = 0x58465342, zfs = 0x2fc12fc1, bcachefs = 0xca451a4e, ramfs = 0x858458f6;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_there(const std::string& path) {
  struct stat found;
  return ::lstat(path.c_str(), &found) == 0;
}

std::string queue_name(const QueuePlaces& places) {
  std::string name = places.host.empty() ? "localhost" : places.host;
  if (!places.machine.empty()) name += "+" + places.machine;
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

// A directory that may hold queues. `root` belongs to the user alone and is made and checked; what is below is made.
struct Candidate {
  std::string root, below;
  bool moved = false;
  bool make_root = true;                         // not in /var/lib: only init makes it there
  std::string path() const { return root + below; }
};

std::vector<Candidate> candidates(const QueuePlaces& places) {
  if (!places.named.empty()) return {{places.named, "", false, true}};
  std::vector<Candidate> all;
  const std::string name = "/" + queue_name(places), below = "/queue" + name;
  if (!places.state_home.empty()) all.push_back({places.state_home + "/thole/queue", name, false, true});
  all.push_back({fmt::format("{}/{}", places.var_lib, places.uid), below, true, false});
  all.push_back({fmt::format("{}/thole-{}", places.temporary, places.uid), below, true, true});
  return all;
}

[[noreturn]] void cannot(const std::string& path, const std::string& what, int why = 0) {
  throw Error(ErrorCode::unavailable, what)
      .about(path)
      .because(why)
      .hint("name another directory: --queue-dir, THOLE_QUEUE_DIR");
}

// A directory in /var/tmp may have been put there by somebody else.
void check(const std::string& path, uid_t uid) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) cannot(path, "cannot look at the queue's directory", errno);
  if (!S_ISDIR(found.st_mode)) cannot(path, "the queue's directory is no directory");
  if (found.st_uid != uid) cannot(path, "the queue's directory belongs to somebody else");
  if ((found.st_mode & 077) != 0)
    throw Error(ErrorCode::unavailable, "others can look into the queue's directory").about(path).hint("chmod 700 " + path);
}

// Makes the directory and those above it, each with its name on the disk.
void make(const std::string& path) {
  if (is_there(path)) return;
  const std::string parent = parent_of(path);
  if (parent != path) make(parent);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) cannot(path, "cannot make the queue's directory", errno);
  Fd above = open_at(AT_FDCWD, parent.c_str(), O_RDONLY | O_DIRECTORY);
  if (above) ::fsync(above.get());
}

QueueDir described(const QueuePlaces& places, const Candidate& candidate) {
  QueueDir dir{candidate.path(), candidate.moved, {}};
  if (candidate.moved && !places.state_home.empty())
    dir.cautions.push_back(
        fmt::format("{} is on no local disk, so the queue of this host lies in {}", places.state_home, dir.path));
  if (places.disk(dir.path) == Disk::gone_after_reboot)
    dir.cautions.push_back(fmt::format("{} is in memory: the queue is gone after a reboot", dir.path));
  return dir;
}

const Candidate* existing(const std::vector<Candidate>& all) {
  for (const Candidate& candidate : all)
    if (is_there(candidate.path() + "/queue.db")) return &candidate;
  return nullptr;
}

}  // namespace

Disk disk_of(const std::string& path) {
  struct statfs fs;
  std::string there = path;
  while (::statfs(there.c_str(), &fs) != 0) {
    if (there == "/" || there == ".") return Disk::foreign;
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

std::optional<QueueDir> find_queue_dir(const QueuePlaces& places) {
  const auto all = candidates(places);
  const Candidate* found = existing(all);
  if (!found) return std::nullopt;
  check(found->root, places.uid);
  if (places.disk(found->path()) == Disk::foreign)
    cannot(found->path(), "this queue is on no local disk, where it cannot be used safely");
  return described(places, *found);
}

QueueDir open_queue_dir(const QueuePlaces& places) {
  if (auto found = find_queue_dir(places)) return std::move(*found);
  for (const Candidate& candidate : candidates(places)) {
    if (!candidate.make_root && !is_there(candidate.root)) continue;
    if (places.disk(candidate.root) == Disk::foreign) {
      if (!places.named.empty()) cannot(candidate.root, "a queue needs a local disk, and this is none");
      continue;
    }
    make(candidate.root);
    check(candidate.root, places.uid);
    make(candidate.path());
    return described(places, candidate);
  }
  cannot(places.temporary, "no local disk was found for the queue");
}

}  // namespace thole::host
