#include "host/claims/kernel_locks.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/fd.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

constexpr unsigned a_crowd_of_locks = 1000;

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

namespace {

std::string_view word(std::string_view line, unsigned index) {
  for (;; --index) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::size_t end = std::min(line.find(' '), line.size());
    if (index == 0 || line.empty()) return line.substr(0, end);
    line.remove_prefix(end);
  }
}

struct Most {
  std::string name;
  unsigned locks = 0;
};

Most most_of(const std::map<uid_t, unsigned>& of_user) {
  const auto most = std::max_element(of_user.begin(), of_user.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == of_user.end() ? Most{} : Most{printable(user_name(most->first), 32), most->second};
}

// The kernel names nobody for a lock of an open file: who has most of them, by those descriptors that we may see. `files`: as
// the kernel writes them.
Most most_of_open_files(const std::set<std::string_view>& files) {
  std::map<uid_t, unsigned> of_user;
  Allowance allowance(to_name_holders);
  for (pid_t pid : all_pids()) {
    if (allowance.over()) break;
    unsigned locks = 0;
    for_each_open_file(pid, [&](const OpenFile& open) {
      const std::string file =
          fmt::format("{:02x}:{:02x}:{}", gnu_dev_major(open.device), gnu_dev_minor(open.device), open.inode);
      if (!files.contains(file)) return;
      const std::string info = about_descriptor(pid, open.fd).value_or("");
      for (std::string_view line : split_lines(info)) locks += line.find("OFDLCK") != std::string_view::npos;
    }, [&] { return allowance.over(); });
    if (const auto uid = locks > 0 ? taker_among({pid}).uid : std::nullopt) of_user[*uid] += locks;
  }
  return most_of(of_user);
}

// "anna keeps 12000 locks": whoever has most of those that were read.
std::string crowd_of(std::string_view text) {
  std::map<pid_t, unsigned> locks_of;
  std::set<std::string_view> files;
  unsigned of_open_files = 0;
  for (std::string_view line : split_lines(text)) {
    pid_t pid = 0;
    if (!take_number(word(line, 4), pid, 10)) continue;
    if (pid > 0) ++locks_of[pid];
    else if (word(line, 1) == "OFDLCK") ++of_open_files, files.insert(word(line, 5));
  }
  std::map<uid_t, unsigned> of_user;
  for (const auto& [pid, locks] : locks_of)
    if (const auto uid = taker_among({pid}).uid) of_user[*uid] += locks;
  constexpr const char* unread = "who holds what cannot be read to its end";
  const Most most = most_of(of_user);
  if (of_open_files >= a_crowd_of_locks && of_open_files > most.locks) {
    const Most seen = most_of_open_files(files);
    const bool is_his = seen.locks >= a_crowd_of_locks;
    return fmt::format("{} keeps {} locks of open files and more: {}", is_his ? seen.name : "somebody",
                       is_his ? seen.locks : of_open_files, unread);
  }
  if (most.locks < a_crowd_of_locks) return "somebody keeps more locks of files than can be read";
  return fmt::format("{} keeps {} locks of files and more: {}", most.name, most.locks, unread);
}

}  // namespace

// A page with room for one more lock was the last one. That the next one is empty tells nothing: what others gave back between
// the two may have moved up what stood there.
LockTable lock_table(std::chrono::nanoseconds limit) {
  LockTable table;
  const Fd fd = open_at(AT_FDCWD, "/proc/locks", O_RDONLY);
  char page[4096];
  constexpr std::size_t longest_line = 256;
  Allowance allowance(limit);
  ssize_t size = -1;
  while (table.whole && fd && (size = ::read(fd.get(), page, sizeof page)) > 0) {
    table.at_once = table.text.empty() && static_cast<std::size_t>(size) <= sizeof page - longest_line;
    table.text.append(page, static_cast<std::size_t>(size));
    table.whole = !allowance.over();
  }
  table.read = size >= 0;
  return table;
}

namespace {

constexpr unsigned readings = 16;

void pause_before_reading() {
  constexpr std::uint64_t longest_ns = 200'000;
  const timespec pause{0, static_cast<long>(random_bits() % longest_ns)};
  ::nanosleep(&pause, nullptr);
}

// Lines that only older readings had, behind those of the last.
void add_missing(std::vector<KernelLock>& last, const std::vector<KernelLock>& older) {
  const auto known = static_cast<std::ptrdiff_t>(last.size());
  std::set<KernelLock> seen(last.begin(), last.begin() + known);
  for (const KernelLock& lock : older)
    if (seen.insert(lock).second) last.push_back(lock);
}

}  // namespace

KernelLocks join_tables(std::function<LockTable()> read, std::chrono::nanoseconds limit) {
  const bool for_init = limit >= for_init_to_tell;
  LockTable table = read();
  KernelLocks locks;
  locks.whole = table.read && table.whole;
  locks.steady = table.at_once;
  locks.flocks = parse_kernel_locks(table.text);
  locks.more_ = readings;
  locks.limit_ = limit;
  locks.read_ = std::move(read);
  locks.text_ = std::move(table.text);
  Allowance more(limit);
  const unsigned most = for_init ? 32 : 8;
  for (unsigned times = 1; locks.whole && !locks.steady && times < most && !more.over(); ++times) {
    LockTable next = locks.read_();
    if (!next.read || !next.whole) break;
    const bool alike = next.at_once || next.text == locks.text_;
    if (alike) locks.flocks.clear();
    locks.add(std::move(next));
    locks.steady = alike;
  }
  if (!locks.whole && limit >= to_name_holders) locks.crowd = crowd_of(locks.text_);
  return locks;
}

void KernelLocks::add(LockTable table) {
  std::vector<KernelLock> all = parse_kernel_locks(table.text);
  add_missing(all, flocks);
  flocks = std::move(all);
  text_ = std::move(table.text);
}

bool KernelLocks::names_all() {
  Allowance allowance(limit_);
  for (; whole && more_ > 0; --more_) {
    pause_before_reading();
    LockTable next = read_();
    whole = next.read && next.whole && !allowance.over();
    add(std::move(next));
  }
  return whole;
}

KernelLocks kernel_locks(std::chrono::nanoseconds limit) {
  return join_tables([limit] { return lock_table(limit); }, limit);
}

namespace {

std::vector<KernelLock> locks_of(const std::vector<KernelLock>& locks, int fd) {
  std::vector<KernelLock> found;
  struct stat file;
  struct statfs system;
  if (fd < 0 || ::fstat(fd, &file) != 0 || ::fstatfs(fd, &system) != 0) return found;
  // btrfs alone gives stat(2) another device number (of the subvolume) than /proc/locks. Elsewhere the number must agree: files
  // of other file systems have the same inode numbers.
  bool any_device = static_cast<unsigned long>(system.f_type) == BTRFS_SUPER_MAGIC;
  for (const KernelLock& lock : locks)
    if (lock.ino == file.st_ino && (lock.dev == file.st_dev || any_device)) found.push_back(lock);
  return found;
}

}  // namespace

std::vector<pid_t> lockers_of(const std::vector<KernelLock>& locks, int fd) {
  std::vector<pid_t> pids;
  for (const KernelLock& lock : locks_of(locks, fd)) pids.push_back(lock.pid);
  return pids;
}

bool is_exclusive(const std::vector<KernelLock>& locks, int fd) {
  return std::ranges::any_of(locks_of(locks, fd), &KernelLock::exclusive);
}

std::optional<std::vector<pid_t>> told_lockers_of(KernelLocks& locks, int fd) {
  std::vector<pid_t> lockers = lockers_of(locks.flocks, fd);
  if (!lockers.empty()) return lockers;
  if (!locks.names_all()) return std::nullopt;
  return lockers_of(locks.flocks, fd);
}

bool stands_still(std::uint32_t pid, std::uint64_t start) {
  const auto process = process_state(static_cast<pid_t>(pid));
  return process && is_same_start(process->start, start) && is_stopped(*process);
}

bool is_stopped(const ProcessState& process) { return is_stopped_state(process.state); }

std::optional<ProcessState> process_state(pid_t pid) {
  struct stat owner;
  auto process = read_process(pid);
  if (!process || ::stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0) return std::nullopt;
  return ProcessState{start_for_all(*process), process->state, owner.st_uid, std::move(process->name)};
}

namespace {

// A program that anybody may run as root is the doing of who runs it.
uid_t doer(UserIds ids) { return ids.effective == 0 ? ids.real : ids.effective; }

uid_t doer_of(pid_t pid, const ProcessState& process) {
  const auto ids = process.uid == 0 ? user_ids_of(pid) : std::nullopt;
  return ids ? doer(*ids) : process.uid;
}

}  // namespace

Taker taker_among(const std::vector<pid_t>& lockers) {
  Taker taker;
  if (lockers.empty() || lockers.front() <= 0) return taker;
  const pid_t pid = lockers.front();
  if (auto process = process_state(pid)) {
    taker.start = process->start;
    taker.uid = doer_of(pid, *process);
  } else if (::kill(pid, 0) != 0 && errno == ESRCH) {
    return taker;
  } else {
    if (const auto ids = user_ids_by_pidfd(pid)) taker.uid = doer(*ids);
  }
  taker.pid = pid;
  return taker;
}

namespace {

// As keeps_lock; unknown, too, where it has too many descriptors.
std::optional<bool> keeps_lock_as_seen(pid_t pid, int fd) {
  Allowance allowance(to_name_holders);
  return keeps_lock(pid, fd, [&] { return allowance.over(); });
}

// The process whose descriptor keeps it, of those whose descriptors are mine to see.
std::optional<pid_t> keeper_of(int fd) {
  constexpr std::chrono::milliseconds of_one_process{3};   // who makes a crowd of locks has a crowd of descriptors
  Allowance all(to_name_holders);
  for (pid_t pid : all_pids()) {
    if (all.over()) return std::nullopt;
    Allowance one(of_one_process);
    if (keeps_lock(pid, fd, [&] { return one.over(); }).value_or(false)) return pid;
  }
  return std::nullopt;
}

}  // namespace

std::vector<pid_t> with_descriptors_coming(std::size_t most) {
  std::vector<pid_t> found;
  Allowance all(to_name_holders);
  for (pid_t pid : all_pids()) {
    if (found.size() == most || all.over()) break;
    if (has_descriptors_coming(pid, [&] { return all.over(); })) found.push_back(pid);
  }
  return found;
}

std::string describe_process(pid_t pid) {
  const auto process = process_state(pid);
  const auto uid = taker_among({pid}).uid;
  const bool stopped = process && is_stopped(*process);
  std::string text = "pid " + std::to_string(pid);
  if (process) text += " (" + printable(process->name, 32) + (stopped ? ", stopped)" : ")");
  return text + " of " + (uid ? printable(user_name(*uid), 32) : "another user");
}

std::map<FileNumber, std::vector<pid_t>> keepers_by_descriptors(const std::set<FileNumber>& files, Allowance& allowance) {
  std::map<FileNumber, std::vector<pid_t>> found;
  const Stop stop = [&] { return allowance.over(); };
  for (pid_t pid : all_pids())
    for (const FileNumber& file : kept_locks(pid, files, stop).files) found[file].push_back(pid);
  return found;
}

std::string describe_keeper(int fd) {
  const auto listed = [fd](std::string& crowd) {
    const KernelLocks locks = kernel_locks();
    crowd = locks.crowd;
    return lockers_of(locks.flocks, fd);
  };
  std::string crowd;
  std::vector<pid_t> pids = listed(crowd);
  if (pids.empty() && !crowd.empty()) {
    const auto keeper = keeper_of(fd);
    return keeper ? describe_process(*keeper) + " holds it" : "who holds it cannot be told, for " + crowd;
  }
  if (pids.empty()) {
    if (!listed(crowd).empty()) return kept_in_turn;
    // Within a pid namespace, who is outside of it and who has ended are both not listed.
    const auto keeper = keeper_of(fd);
    return keeper ? describe_process(*keeper) + " holds it" : "its owner has ended or is in another container";
  }
  const pid_t pid = pids.front();
  const bool gone = ::kill(pid, 0) != 0 && errno == ESRCH;
  const std::optional<bool> keeps = gone ? false : keeps_lock_as_seen(pid, fd);
  if (!keeps) return describe_process(pid) + " holds it, if that is who took it (root is told: sudo thole doctor)";
  if (*keeps) return describe_process(pid) + " holds it";
  // All descriptors of all processes are looked at only for one who has it still: among many who wait that would keep them all.
  pids = listed(crowd);
  if (std::ranges::find(pids, pid) == pids.end()) return kept_in_turn;
  const std::string taken = gone ? fmt::format("pid {} took it and has ended, ", pid)
                                 : describe_process(pid) + " took it, or one that had its number, ";
  if (const auto child = keeper_of(fd)) return taken + describe_process(*child) + " holds it";
  if (::geteuid() != 0) return taken + "who has it since is told to root (sudo thole doctor)";
  if (!kept_in_no_process(fd)) return taken + "who has it since cannot be told";
  if (!gone) return taken + "and its descriptor is not seen (io_uring may have it, or a socket)";
  std::string perhaps;
  for (const pid_t one : with_descriptors_coming())
    perhaps += (perhaps.empty() ? ", perhaps one of " : ", ") + describe_process(one);
  return taken + "and no process is seen to have it: its descriptor is on its way in a socket" + perhaps;
}

bool kept_in_no_process(int fd) {
  int unlisted = 0;
  const std::vector<pid_t> pids = all_pids(&unlisted);
  const auto takers = [fd] { return lockers_of(kernel_locks().flocks, fd); };
  const std::vector<pid_t> taken_by = takers();
  if (::geteuid() != 0 || unlisted != 0 || taken_by.empty()) return false;
  Allowance allowance(for_init_to_tell);
  return std::ranges::all_of(pids, [&](pid_t pid) {
    const auto keeps = keeps_lock(pid, fd, [&] { return allowance.over(); });
    if (takers() != taken_by) return false;      // it goes from hand to hand: who has it now was looked at before
    if (keeps || allowance.over()) return keeps == false;
    const auto process = read_process(pid);
    return !process || is_ended_state(process->state) || user_of(pid) == 0;
  });
}

std::uint32_t own_pid_namespace() {
  struct stat pids;
  return ::stat("/proc/self/ns/pid", &pids) == 0 ? static_cast<std::uint32_t>(pids.st_ino) : 0;
}

ProcessIdentity own_identity() {
  ProcessIdentity me;
  me.uid = ::geteuid();
  me.pid = static_cast<std::uint32_t>(::getpid());
  if (auto process = read_self()) me.start = start_for_all(*process);
  me.pid_namespace = own_pid_namespace();
  me.boot = read_boot_id();
  return me;
}

}  // namespace thole::host
