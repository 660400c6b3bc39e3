#include "host/claims/guard.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/byte_range.hpp"
#include "base/fd.hpp"
#include "base/hash.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/own_directory.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr std::uint64_t longest = std::uint64_t{1} << 32;   // of 2^62 bytes: two names meet by chance only

// One name for one path as it is written; links are not followed.
std::string plain(const std::string& path) {
  const bool is_plain = path.starts_with('/') && path.find("//") == std::string::npos && path.find("/.") == std::string::npos;
  return is_plain ? path : std::filesystem::absolute(path).lexically_normal().string();
}

off_t length_of(const std::string& path) { return static_cast<off_t>(1 + fnv1a(path) % longest); }

// The last two words: "… READ -1 fe:00:246947 3540750043037027823 3540750043037040167".
std::optional<std::pair<off_t, off_t>> range_of(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() < 2) return std::nullopt;
  const auto begin = parse_u64(words[words.size() - 2]), end = parse_u64(words.back());
  if (!begin || !end) return std::nullopt;
  return std::pair(static_cast<off_t>(*begin), static_cast<off_t>(*end));
}

// A lock node that only its owner can open. All of them are sticky (ClaimDirectory); no pipe is, of which anybody may have been
// handed one of this owner's.
bool is_locked_personal_node(pid_t pid, const OpenFile& open, uid_t owner) {
  return S_ISFIFO(open.mode) && open.uid == owner && (open.mode & 07777) == (S_ISVTX | 0600) && has_flock(pid, open.fd);
}

// Its open files, one after the other. Who cannot be looked at for want of descriptors or memory may be the one.
void look_through(pid_t pid, const std::function<void(const OpenFile&)>& visit) {
  errno = 0;
  if (!for_each_open_file(pid, visit)) refuse_unseen(fmt::format("/proc/{}/fd", pid), errno);
}

bool has_personal_lock(pid_t pid, uid_t owner) {
  bool found = false;
  look_through(pid, [&](const OpenFile& open) { found = found || is_locked_personal_node(pid, open, owner); });
  return found;
}

bool is_same(const std::string& one, const char* other) {
  struct statx a, b;
  return ::statx(AT_FDCWD, one.c_str(), AT_STATX_DONT_SYNC, STATX_INO, &a) == 0 &&
         ::statx(AT_FDCWD, other, AT_STATX_DONT_SYNC, STATX_INO, &b) == 0 && a.stx_ino == b.stx_ino &&
         a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor;
}

bool sees_what_we_see(pid_t pid) {
  const auto does = [](const std::string& directory) {
    return is_same(directory + "/ns/mnt", "/proc/self/ns/mnt") && is_same(directory + "/root", "/proc/self/root");
  };
  if (does(fmt::format("/proc/{}", pid))) return true;
  const std::string thread = directory_behind_ended_first(pid);
  return !thread.empty() && does(thread);
}

std::vector<pid_t> every_pid() {
  errno = 0;
  std::vector<pid_t> pids = all_pids();
  if (pids.empty()) refuse_unseen("/proc", errno);
  return pids;
}

// By anybody, in whatever directory.
bool is_listed(const Guard& guard) {
  constexpr unsigned most_readings = 16;
  for (unsigned times = 0; times < most_readings; ++times) {
    const LockTable table = lock_table(to_name_holders);
    const std::vector<std::string_view> lines = split_lines(table.text);
    if (std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return guard.is_in(line); })) return true;
  }
  return false;
}

// One look at all processes for who keeps a guard.
class KeeperSearch {
 public:
  explicit KeeperSearch(const KeeperOf& wanted) : wanted_(wanted) {}

  bool is_keeper(pid_t pid) {
    const bool sees = sees_what_we_see(pid);
    if (!sees && !wanted_.parent) return false;
    if (wanted_.owner && !has_personal_lock(pid, *wanted_.owner)) return false;   // first: that is cheap
    const auto user = user_of(pid);
    bool found = false;
    look_through(pid, [&](const OpenFile& open) {
      if (found || !S_ISDIR(open.mode) || (!sees && FileNumber(open.device, open.inode) != *wanted_.parent)) return;
      std::chrono::nanoseconds& spent = spent_[user.value_or(static_cast<uid_t>(-1))];
      if (user != ::geteuid() && spent > most_for_a_stranger) return;
      const std::chrono::nanoseconds before = time_worked();
      found = keeps_guard(pid, open.fd, wanted_.guard);
      spent += time_worked() - before;
    });
    return found;
  }

  // Until `visit` says false. A process may hand the lock on to its child and end between two looks: so those that have come
  // meanwhile are looked at until there are none. False: there always were some that may be keepers.
  bool each(const std::function<bool(pid_t)>& visit) {
    constexpr unsigned most_lists = 50;
    std::set<pid_t> looked_at;
    bool any_new = true;
    for (unsigned lists = 0; any_new && lists < most_lists; ++lists) {
      any_new = false;
      for (pid_t pid : every_pid()) {
        if (!looked_at.insert(pid).second) continue;
        if (is_keeper(pid) && !visit(pid)) return true;
        any_new = any_new || (::geteuid() == 0 && !wanted_.owner) || user_of(pid) == ::geteuid();
      }
    }
    return !any_new;
  }

 private:
  // All locks of one open directory are told for each of its descriptors, and anybody can have any number of both.
  static constexpr std::chrono::milliseconds most_for_a_stranger{200};

  const KeeperOf& wanted_;
  std::map<uid_t, std::chrono::nanoseconds> spent_;
};

}  // namespace

struct flock Guard::lock(short type) const { return byte_range(type, begin, length); }

bool Guard::is_kept_in(int parent) const {
  struct flock other = byte_range(F_WRLCK, begin, 1);
  if (::fcntl(parent, F_OFD_GETLK, &other) != 0) return refuse_unseen("/proc/locks", errno), false;
  return other.l_type != F_UNLCK;
}

bool Guard::is_in(std::string_view lock_line) const {
  if (lock_line.find("OFDLCK") == std::string_view::npos) return false;
  const auto range = range_of(lock_line);
  return range && range->first == begin &&
         (range->second == begin + length - 1 || range->second == begin + length_as_written - 1);
}

bool keeps_guard(pid_t pid, const char* fd, const Guard& guard) {
  const std::optional<std::string> told = about_descriptor(pid, fd);
  if (!told) refuse_unseen(fmt::format("/proc/{}/fdinfo/{}", pid, fd), errno);
  const std::string info = told.value_or("");
  const std::vector<std::string_view> lines = split_lines(info);
  return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return guard.is_in(line); });
}

Guard guard_of(const std::string& path) {
  const std::uint64_t name = fnv1a(path.substr(path.rfind('/') + 1));
  const std::string written = plain(path);
  const std::size_t slash = written.rfind('/');
  const std::string of_any_number = without_number(written.substr(0, slash)) + written.substr(slash);
  return {static_cast<off_t>(name >> 2), length_of(of_any_number), length_of(written)};
}

std::vector<pid_t> keepers_anywhere(const KeeperOf& wanted) {
  std::vector<pid_t> keepers;
  KeeperSearch(wanted).each([&](pid_t pid) {
    keepers.push_back(pid);
    return true;
  });
  return keepers;
}

bool AnyKeeper::lives() {
  KeeperSearch search(wanted_);
  if (found_ && search.is_keeper(*found_)) return true;
  found_.reset();
  const bool settled = search.each([this](pid_t pid) {
    found_ = pid;
    return false;
  });
  return found_ || (!settled && is_listed(wanted_.guard));
}

}  // namespace thole::host
