#include "host/claims/kernel_locks.hpp"

#include <linux/magic.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "base/fd.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

template <typename T>
bool take_number(std::string_view text, T& value, int base) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

// "1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF"
std::optional<KernelLock> parse_line(std::string_view line) {
  std::string_view words[6];
  std::size_t count = 0;
  while (count < 6) {
    std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    std::size_t end = std::min(line.find(' ', begin), line.size());
    words[count++] = line.substr(begin, end - begin);
    line.remove_prefix(end);
  }
  if (count < 6 || words[1] != "FLOCK") return std::nullopt;  // a waiter has "->" here
  KernelLock lock;
  lock.exclusive = words[3] == "WRITE";
  std::string_view where = words[5];
  std::size_t first = where.find(':'), second = where.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  unsigned dev_major = 0, dev_minor = 0;
  if (!take_number(words[4], lock.pid, 10) || !take_number(where.substr(0, first), dev_major, 16) ||
      !take_number(where.substr(first + 1, second - first - 1), dev_minor, 16) ||
      !take_number(where.substr(second + 1), lock.ino, 10))
    return std::nullopt;
  lock.dev = makedev(dev_major, dev_minor);
  return lock;
}

std::array<std::uint8_t, 16> read_boot_id() {
  std::array<std::uint8_t, 16> id{};
  std::size_t digit = 0;
  for (char c : boot_id()) {
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0 || digit >= 32) continue;
    id[digit / 2] = static_cast<std::uint8_t>(id[digit / 2] << 4 | value);
    ++digit;
  }
  return id;
}

}  // namespace

std::vector<KernelLock> parse_kernel_locks(std::string_view text) {
  std::vector<KernelLock> locks;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    if (auto lock = parse_line(text.substr(0, end))) locks.push_back(*lock);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return locks;
}

std::vector<KernelLock> kernel_locks() { return parse_kernel_locks(read_file("/proc/locks").value_or("")); }

std::vector<pid_t> lockers_of(const std::vector<KernelLock>& locks, int fd) {
  std::vector<pid_t> pids;
  struct stat file;
  struct statfs system;
  if (fd < 0 || ::fstat(fd, &file) != 0 || ::fstatfs(fd, &system) != 0) return pids;
  // btrfs alone gives stat(2) another device number (of the subvolume) than /proc/locks. Elsewhere the number must agree: files
  // of other file systems have the same inode numbers.
  bool any_device = static_cast<unsigned long>(system.f_type) == BTRFS_SUPER_MAGIC;
  for (const KernelLock& lock : locks)
    if (lock.ino == file.st_ino && (lock.dev == file.st_dev || any_device)) pids.push_back(lock.pid);
  return pids;
}

std::optional<ProcessState> process_state(pid_t pid) {
  struct stat owner;
  auto process = read_process(pid);
  if (!process || ::stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0) return std::nullopt;
  return ProcessState{process->start_ticks, process->state, owner.st_uid, std::move(process->name)};
}

namespace {

// PIDFD_GET_INFO of Linux 6.13; the libc's headers lack it.
struct PidfdInfo {
  std::uint64_t mask, cgroup;
  std::uint32_t pid, tgid, parent, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  std::int32_t exit_code;
};
constexpr unsigned long pidfd_get_info = _IOWR(0xff, 11, PidfdInfo);
constexpr std::uint64_t has_credentials = 2;

// The effective uid of a process that /proc does not show.
std::optional<uid_t> uid_by_pidfd(pid_t pid) {
  Fd process = open_pidfd(pid);
  PidfdInfo info{};
  info.mask = has_credentials;
  if (!process || ::ioctl(process.get(), pidfd_get_info, &info) != 0 || (info.mask & has_credentials) == 0) return std::nullopt;
  return info.euid;
}

}  // namespace

Taker taker_among(const std::vector<pid_t>& lockers) {
  Taker taker;
  if (lockers.empty() || lockers.front() <= 0) return taker;
  const pid_t pid = lockers.front();
  if (auto process = process_state(pid)) {
    taker.start = process->start;
    taker.uid = process->uid;
  } else if (::kill(pid, 0) != 0 && errno == ESRCH) {
    return taker;
  } else {
    taker.uid = uid_by_pidfd(pid);
  }
  taker.pid = pid;
  return taker;
}

ProcessIdentity own_identity() {
  ProcessIdentity me;
  me.uid = ::geteuid();
  me.pid = static_cast<std::uint32_t>(::getpid());
  if (auto process = process_state(::getpid())) me.start = process->start;
  me.boot = read_boot_id();
  return me;
}

}  // namespace thole::host
