#include "host/process/open_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// Where /proc has a process's files. Our own are in a /proc of another pid namespace, too.
std::string directory_of(pid_t pid) {
  return pid == ::getpid() ? "/proc/thread-self" : "/proc/" + std::to_string(pid);
}

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

void note_want(int* want, int why) {
  if (want && is_want(why)) *want = why;
}

Listing listing_of(const std::string& path, int* want) {
  Listing listing(::opendir(path.c_str()), &::closedir);
  if (!listing) note_want(want, errno);
  return listing;
}

// The next one, or null.
const dirent* next_in(const Listing& listing, int* want = nullptr) {
  errno = 0;
  const dirent* entry = ::readdir(listing.get());
  if (!entry) note_want(want, errno);
  return entry;
}

// The descriptors of a process. Those of one whose first thread has ended are with its living ones.
Listing descriptors_of(pid_t pid, int* want = nullptr) {
  errno = 0;
  Listing listing = listing_of(directory_of(pid) + "/fd", want);
  const bool is_closed = !listing && (errno == EACCES || errno == EPERM);
  if ((!listing && !is_closed) || pid == ::getpid()) return listing;
  while (const dirent* entry = listing ? next_in(listing, want) : nullptr)
    if (entry->d_name[0] != '.') {
      ::rewinddir(listing.get());
      return listing;
    }
  if (listing) ::rewinddir(listing.get());
  int why = 0;
  const std::string thread = directory_behind_ended_first(pid, &why);
  note_want(want, why);
  return thread.empty() ? std::move(listing) : listing_of(thread + "/fd", want);
}

bool tells_of_flock(const std::string& info, bool exclusively) {
  const auto at = info.find("lock:");
  return at != std::string::npos && info.find("FLOCK", at) != std::string::npos &&
         (!exclusively || info.find("WRITE", at) != std::string::npos);
}

using IsMeant = std::function<bool(std::string_view name)>;

IsMeant ends_with(std::string_view end_of_name) {
  return [end_of_name](std::string_view name) { return name.ends_with(end_of_name); };
}

// "…/N.life"
bool is_life_of_a_lane(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('/') + 1);
  constexpr std::string_view end = ".life";
  return last.ends_with(end) && parse_u64(last.substr(0, last.size() - end.size()));
}

// Open for reading and writing, and for nobody else to open.
void for_each_own_file(pid_t pid, const IsMeant& is_meant, const std::function<void(const OpenFile&)>& visit,
                       int* want = nullptr) {
  constexpr std::string_view removed = " (deleted)";
  const Listing listing = descriptors_of(pid, want);
  while (const dirent* entry = listing ? next_in(listing, want) : nullptr) {
    char target[4096];
    const ssize_t n = ::readlinkat(::dirfd(listing.get()), entry->d_name, target, sizeof target);
    std::string_view name(target, n > 0 ? static_cast<std::size_t>(n) : 0);
    if (name.ends_with(removed)) name.remove_suffix(removed.size());
    if (!is_meant(name)) continue;
    struct stat link {};
    constexpr mode_t both = S_IRUSR | S_IWUSR;     // of the link: how it is open
    if (::fstatat(::dirfd(listing.get()), entry->d_name, &link, AT_SYMLINK_NOFOLLOW) != 0) {
      note_want(want, errno);
      continue;
    }
    if ((link.st_mode & both) != both) continue;
    struct statx open;
    if (::statx(::dirfd(listing.get()), entry->d_name, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &open) != 0) {
      note_want(want, errno);
      continue;
    }
    if (open.stx_uid != ::geteuid() || (open.stx_mode & 077) != 0) continue;
    const std::uint64_t device = makedev(open.stx_dev_major, open.stx_dev_minor);
    visit({entry->d_name, open.stx_mode, open.stx_uid, device, open.stx_ino, open.stx_nlink, open.stx_blocks * 512});
  }
}

bool keeps_lock_of(pid_t pid, const IsMeant& is_meant, const std::function<bool(const OpenFile&)>& is_of_its_kind,
                   const std::set<FileNumber>& but_for) {
  bool found = false;
  for_each_own_file(pid, is_meant, [&](const OpenFile& open) {
    found = found || (is_of_its_kind(open) && !but_for.contains({open.device, open.inode}) && has_flock(pid, open.fd, true));
  });
  return found;
}

std::set<FileNumber> that_we_have_open(const IsMeant& is_meant) {
  std::set<FileNumber> ours;
  for_each_own_file(::getpid(), is_meant, [&](const OpenFile& open) { ours.emplace(open.device, open.inode); });
  return ours;
}

bool is_fifo(const OpenFile& open) { return S_ISFIFO(open.mode); }

std::vector<pid_t> threads_with_descriptors(pid_t pid) {
  std::vector<pid_t> threads;
  for (const pid_t thread : threads_of(pid))
    if (threads.empty() || ::syscall(SYS_kcmp, threads.back(), thread, KCMP_FILES, 0, 0) != 0) threads.push_back(thread);
  if (threads.empty()) threads.push_back(pid);   // whoever looks at it is told why not
  return threads;
}

}  // namespace

std::optional<std::string> about_descriptor(pid_t pid, const char* fd) {
  auto info = read_file(fmt::format("{}/fdinfo/{}", directory_of(pid), fd));
  if (info || says_nothing(errno) || pid == ::getpid()) return info;
  const std::string thread = directory_behind_ended_first(pid);
  return thread.empty() ? info : read_file(fmt::format("{}/fdinfo/{}", thread, fd));
}

bool for_each_open_file(pid_t pid, const std::function<void(const OpenFile&)>& visit, const Stop& stop,
                        int* want) {
  const Listing listing = descriptors_of(pid, want);
  if (!listing) return false;
  bool shown = true;   // to root without CAP_SYS_PTRACE their numbers are, and no more
  while (const dirent* entry = next_in(listing, want)) {
    struct statx open;
    if (stop && stop()) return false;
    if (::statx(::dirfd(listing.get()), entry->d_name, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &open) != 0) {
      const int why = errno;
      shown = shown && why != EACCES && why != EPERM && !says_nothing(why);
      note_want(want, why);
      continue;
    }
    if (entry->d_name[0] == '.') continue;
    const std::uint64_t device = makedev(open.stx_dev_major, open.stx_dev_minor);
    visit({entry->d_name, open.stx_mode, open.stx_uid, device, open.stx_ino, open.stx_nlink, open.stx_blocks * 512});
  }
  return shown;
}

bool for_each_open_file_of_any_thread(pid_t pid, const std::function<void(pid_t thread, const OpenFile&)>& visit,
                                      const Stop& stop, int* want) {
  bool all = true;
  for (const pid_t thread : threads_with_descriptors(pid)) {
    if (stop && stop()) return false;
    all = for_each_open_file(thread, [&](const OpenFile& open) { visit(thread, open); }, stop, want) && all;
  }
  return all;
}

bool has_open(pid_t pid, int fd, int* want) {
  struct statx wanted;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &wanted) != 0) {
    note_want(want, errno);
    return false;
  }
  const std::uint64_t device = makedev(wanted.stx_dev_major, wanted.stx_dev_minor);
  bool found = false;
  for_each_open_file(pid, [&](const OpenFile& open) {
    found = found || (open.inode == wanted.stx_ino && open.device == device);
  }, to_the_end, want);
  return found;
}

bool has_own_fifo_open(pid_t pid, std::string_view end_of_name, int* want) {
  bool found = false;
  for_each_own_file(pid, ends_with(end_of_name), [&](const OpenFile& open) { found = found || S_ISFIFO(open.mode); }, want);
  return found;
}

bool keeps_runner_lock(pid_t pid) {
  const IsMeant is_runner = ends_with("/runner");
  return keeps_lock_of(pid, is_runner, [](const OpenFile&) { return true; }, that_we_have_open(is_runner));
}

bool keeps_lane_lock(pid_t pid) {
  return keeps_lock_of(pid, is_life_of_a_lane, is_fifo, that_we_have_open(is_life_of_a_lane));
}

bool keeps_lock_of_another_lane(pid_t pid, int life) {
  struct stat own;
  return ::fstat(life, &own) == 0 && keeps_lock_of(pid, is_life_of_a_lane, is_fifo, {{own.st_dev, own.st_ino}});
}

std::set<FileNumber> numbers_of_files(int directory, const std::vector<std::string>& names) {
  std::set<FileNumber> numbers;
  struct stat file;
  for (const std::string& name : names)
    if (::fstatat(directory, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0) numbers.emplace(file.st_dev, file.st_ino);
  return numbers;
}

KeptLocks kept_locks(pid_t pid, const std::set<FileNumber>& files, const Stop& stop) {
  KeptLocks kept;
  bool unread = false;
  const bool seen = for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
    const FileNumber file(open.device, open.inode);
    if (!files.contains(file) || kept.files.contains(file)) return;
    const std::optional<std::string> info = about_descriptor(thread, open.fd);
    unread = unread || (!info && says_nothing(errno));
    if (info && tells_of_flock(*info, false)) kept.files.insert(file);
  }, stop);
  kept.all = seen && !unread;
  return kept;
}

std::optional<bool> keeps_lock(pid_t pid, int fd, const Stop& stop) {
  struct stat wanted;
  if (::fstat(fd, &wanted) != 0) return std::nullopt;
  const KeptLocks kept = kept_locks(pid, {{wanted.st_dev, wanted.st_ino}}, stop);
  return !kept.files.empty() ? std::optional(true) : kept.all ? std::optional(false) : std::nullopt;
}

bool has_descriptors_coming(pid_t pid, const Stop& stop) {
  constexpr std::string_view number = "scm_fds:";
  bool found = false;
  for_each_open_file(pid, [&](const OpenFile& open) {
    if (found || !S_ISSOCK(open.mode)) return;
    const std::string info = about_descriptor(pid, open.fd).value_or("");
    for (std::string_view line : split_lines(info))
      found = found || (line.starts_with(number) && parse_u64(trim(line.substr(number.size()))).value_or(0) > 0);
  }, stop);
  return found;
}

bool has_locked_fifo(pid_t pid) {
  bool found = false;
  for_each_open_file(pid, [&](const OpenFile& open) { found = found || (S_ISFIFO(open.mode) && has_flock(pid, open.fd)); },
                     to_the_end);
  return found;
}

bool keeps_a_lock_of_ours(pid_t pid) {
  std::set<FileNumber> ours;
  for_each_open_file(::getpid(), [&](const OpenFile& open) {
    if (S_ISFIFO(open.mode)) ours.emplace(open.device, open.inode);
  }, to_the_end);
  return !kept_locks(pid, ours, to_the_end).files.empty();
}

bool stays_open_over_exec(pid_t pid, const char* fd) {
  const std::string info = about_descriptor(pid, fd).value_or("");
  for (std::string_view line : split_lines(info)) {
    if (!line.starts_with("flags:")) continue;
    const std::string_view digits = trim(line.substr(sizeof "flags:" - 1));
    unsigned flags = O_CLOEXEC;
    std::from_chars(digits.data(), digits.data() + digits.size(), flags, 8);
    return (flags & O_CLOEXEC) == 0;
  }
  return false;
}

bool has_flock(pid_t pid, const char* fd, bool exclusively) {
  const std::optional<std::string> info = about_descriptor(pid, fd);
  return info && tells_of_flock(*info, exclusively);
}

}  // namespace thole::host
