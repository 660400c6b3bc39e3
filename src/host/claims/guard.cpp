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

bool is_listed(const Guard& guard) {
  constexpr unsigned most_readings = 16;
  for (unsigned times = 0; times < most_readings; ++times) {
    const LockTable table = lock_table(to_name_holders);
    const std::vector<std::string_view> lines = split_lines(table.text);
    if (std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return guard.is_in(line); })) return true;
  }
  return false;
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

// Who has started it counts: what a program of root's does that a stranger runs (su) is the stranger's.
bool KeeperSearch::is_ours(pid_t pid) const {
  const auto ids = user_ids_of(pid);
  return ids && ids->real == ::geteuid();
}

// Who cannot be looked at for want of descriptors or memory may be the one.
bool KeeperSearch::has_open_one(pid_t pid, const IsIt& is_it) {
  const bool ours = is_ours(pid);
  const auto no_time = [&] { return !ours && strangers_.over(); };
  bool found = false;
  int want = 0;
  const bool whole = for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
    found = found || is_it(thread, open);
  }, [&] { return found || no_time(); }, &want);
  if (found || whole) return found;
  if (!no_time()) refuse_unseen(fmt::format("/proc/{}/fd", pid), want);
  else if (missed_ == 0) missed_ = pid;
  return false;
}

bool KeeperSearch::is_keeper(pid_t pid) {
  const bool sees = sees_what_we_see(pid);
  if (!sees && !wanted_.parent) return false;
  const auto is_lock_of_owner = [this](pid_t thread, const OpenFile& open) {
    return is_locked_personal_node(thread, open, *wanted_.owner);
  };
  if (wanted_.owner && !has_open_one(pid, is_lock_of_owner)) return false;   // first: that is cheap
  return has_open_one(pid, [&](pid_t thread, const OpenFile& open) {
    return S_ISDIR(open.mode) && (sees || FileNumber(open.device, open.inode) == *wanted_.parent) &&
           keeps_guard(thread, open.fd, wanted_.guard);
  });
}

bool KeeperSearch::each(const std::function<bool(pid_t)>& visit) {
  constexpr unsigned most_lists = 50;
  std::set<pid_t> looked_at;
  settled_ = false;
  for (unsigned lists = 0; !settled_ && lists < most_lists; ++lists) {
    settled_ = true;
    for (pid_t pid : every_pid()) {
      if (!looked_at.insert(pid).second) continue;
      if (is_keeper(pid) && !visit(pid)) return true;
      const bool may_be_handed_it = (::geteuid() == 0 && !wanted_.owner && !strangers_.over()) || is_ours(pid);
      settled_ = settled_ && !may_be_handed_it;
    }
  }
  return false;
}

std::string KeeperSearch::missed() const { return describe_process(missed_); }

std::vector<pid_t> keepers_anywhere(const KeeperOf& wanted) {
  std::vector<pid_t> keepers;
  Allowance strangers(for_strangers);
  KeeperSearch(wanted, strangers).each([&](pid_t pid) {
    keepers.push_back(pid);
    return true;
  });
  return keepers;
}

// A personal directory's keepers run for its owner: strangers' processes with more than can be looked at are none of them.
bool AnyKeeper::lives() {
  KeeperSearch search(wanted_, strangers_);
  if (found_ && search.is_keeper(*found_)) return true;
  found_.reset();
  const bool found = search.each([this](pid_t pid) {
    found_ = pid;
    return false;
  });
  const bool in_doubt = !search.settled() || (search.missed_any() && !wanted_.owner);
  return found || (in_doubt && is_listed(wanted_.guard));
}

}  // namespace thole::host
