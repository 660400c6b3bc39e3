#include "host/claims/guard.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/byte_range.hpp"
#include "base/fd.hpp"
#include "base/hash.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
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

bool keeps(pid_t pid, const Guard& guard, std::optional<uid_t> owner) {
  bool found = false, locks = !owner;
  errno = 0;
  const bool shown = for_each_open_file(pid, [&](const OpenFile& open) {
    locks = locks || is_locked_personal_node(pid, open, *owner);
    if (found || !S_ISDIR(open.mode)) return;
    found = keeps_guard(pid, open.fd, guard);
  });
  if (!shown) refuse_unseen(fmt::format("/proc/{}/fd", pid), errno);
  return found && locks;
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

bool is_keeper(pid_t pid, const Guard& guard, std::optional<uid_t> owner) {
  return sees_what_we_see(pid) && keeps(pid, guard, owner);
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

std::vector<pid_t> keepers_anywhere(const Guard& guard, std::optional<uid_t> owner) {
  std::vector<pid_t> keepers;
  for (pid_t pid : every_pid())
    if (is_keeper(pid, guard, owner)) keepers.push_back(pid);
  return keepers;
}

bool AnyKeeper::lives() {
  if (found_ && is_keeper(*found_, guard_, owner_)) return true;
  found_.reset();
  for (pid_t pid : every_pid()) {
    if (!is_keeper(pid, guard_, owner_)) continue;
    found_ = pid;
    return true;
  }
  return false;
}

}  // namespace thole::host
