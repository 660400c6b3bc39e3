#include "host/process/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/machine_clocks.hpp"
#include "base/text.hpp"
#include "host/process/helpers.hpp"
#include "host/process/memory_file.hpp"
#include "host/process/open_files.hpp"

namespace thole::host {
namespace {

// The directory's entries that are numbers.
std::vector<pid_t> numbers_in(const std::string& path, int* why = nullptr) {
  std::vector<pid_t> numbers;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  int failed = directory ? 0 : errno;
  while (directory) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (!entry) {
      failed = errno;
      break;
    }
    if (auto number = parse_u64(entry->d_name)) numbers.push_back(static_cast<pid_t>(*number));
  }
  if (why) *why = failed;
  return numbers;
}

std::vector<ProcessStat> all_processes() {
  std::vector<ProcessStat> all;
  for (pid_t pid : all_pids())
    if (auto process = read_process(pid)) all.push_back(std::move(*process));
  return all;
}

// What a fork has in common with its parent. The auxiliary vector has where the kernel has put the program, its stack and its
// AT_RANDOM: copied by a fork, new after each exec, so that `bash` within `bash` is another shell.
std::string program_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid);
  return executable_of(pid) + '\0' + MemoryFile(path + "/cmdline", MemoryFile::For::decide).read(1u << 20).text + '\0' +
         read_file(path + "/auxv", 1u << 16).value_or("");
}

// The one that all between it and `pid` are forks of.
pid_t forked_from(pid_t pid) {
  const std::string like = program_of(pid);
  for (auto process = read_process(pid); process && process->parent > 1; process = read_process(pid)) {
    if (program_of(process->parent) != like) break;
    pid = process->parent;
  }
  return pid;
}

// By the number that it has for us.
std::optional<ProcessStat> shown_child(pid_t child) { return proc_numbers_are_ours() ? read_process(child) : std::nullopt; }

// What /proc does not show of our children.
std::vector<ProcessStat> hidden_children(std::span<const pid_t> known) {
  std::vector<pid_t> children = listed_children().value_or(std::vector<pid_t>{});
  for (const pid_t child : known)
    if (child > 0 && std::ranges::find(children, child) == children.end()) children.push_back(child);
  std::vector<ProcessStat> hidden;
  for (const pid_t child : children) {
    siginfo_t ended{}, stopped{};
    if (shown_child(child) || ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    if (ended.si_pid != 0 || is_of_a_queue(child) || is_helper(child)) continue;
    ::waitid(P_PID, static_cast<id_t>(child), &stopped, WSTOPPED | WNOHANG | WNOWAIT);
    ProcessStat process;
    process.pid = child;
    process.parent = ::getpid();
    process.group = ::getpgid(child);
    process.state = stopped.si_pid != 0 ? 'T' : '?';
    process.hidden = true;
    hidden.push_back(std::move(process));
  }
  return hidden;
}

constexpr const char* boot_id_file = "/proc/sys/kernel/random/boot_id";

// Nothing is mounted over this file of /proc (which a kernel before 5.8 does not tell), nor over a directory above it.
bool is_kernels_own(const char* path) {
  constexpr decltype(std::declval<struct statfs>().f_type) proc = 0x9fa0;
  constexpr std::uint64_t mount_root = 0x2000;   // STATX_ATTR_MOUNT_ROOT of linux/stat.h
  struct statfs system {};
  struct statx about {};
  if (::statfs(path, &system) != 0 || system.f_type != proc) return false;
  return ::statx(AT_FDCWD, path, 0, STATX_TYPE, &about) != 0 || (about.stx_attributes & mount_root) == 0;
}

}  // namespace

bool proc_numbers_are_ours() {
  char text[32];
  const ssize_t size = ::readlink("/proc/self", text, sizeof text);
  if (std::string_view(text, size > 0 ? static_cast<std::size_t>(size) : 0) != std::to_string(::getpid())) return false;
  const std::string status = read_file("/proc/self/status", 4096).value_or("");
  for (std::string_view line : split_lines(status))   // one number for each namespace, from that of /proc to ours
    if (line.starts_with("NSpid:")) return split(trim(line.substr(6)), '\t').size() == 1;
  return true;
}

std::uint64_t pid_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/pid", &about) == 0 ? static_cast<std::uint64_t>(about.st_ino) : 0;
}

std::uint64_t user_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/user", &about) == 0 ? static_cast<std::uint64_t>(about.st_ino) : 0;
}

bool in_first_user_namespace() {
  constexpr std::uint64_t first = 0xEFFFFFFD;    // PROC_USER_INIT_INO of linux/proc_ns.h
  const std::uint64_t ours = user_namespace();
  return ours == first || ours == 0;             // 0: a kernel without
}

std::vector<pid_t> started_by() {
  std::vector<pid_t> pids;
  const auto self = read_self();
  pid_t pid = self ? self->parent : 0;
  for (auto process = read_process(pid); process && pid > 0; pid = process->parent, process = read_process(pid))
    pids.push_back(pid);
  return pids;
}

std::vector<pid_t> all_pids(int* why) { return numbers_in("/proc", why); }

std::string executable_of(pid_t pid) { return read_link(fmt::format("/proc/{}/exe", pid)); }

std::optional<uid_t> user_of(pid_t pid) {
  struct stat about;
  if (::stat(("/proc/" + std::to_string(pid)).c_str(), &about) != 0) return std::nullopt;
  return about.st_uid;
}

std::optional<UserIds> user_ids_of(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status").value_or("");
  for (std::string_view line : split_lines(status)) {
    if (!line.starts_with("Uid:")) continue;
    const auto words = split(line, '\t');
    const auto real = words.size() > 2 ? parse_u64(words[1]) : std::nullopt;
    const auto effective = words.size() > 2 ? parse_u64(words[2]) : std::nullopt;
    if (real && effective) return UserIds{static_cast<uid_t>(*real), static_cast<uid_t>(*effective)};
  }
  return std::nullopt;
}

std::optional<UserIds> user_ids_by_pidfd(pid_t pid) {
  struct PidfdInfo {                             // PIDFD_GET_INFO; the libc's headers lack it
    std::uint64_t mask, cgroup;
    std::uint32_t pid, tgid, parent, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    std::int32_t exit_code;
  };
  constexpr unsigned long get_info = _IOWR(0xff, 11, PidfdInfo);
  constexpr std::uint64_t has_credentials = 2;
  const Fd process = open_pidfd(pid);
  PidfdInfo info{};
  info.mask = has_credentials;
  if (!process || ::ioctl(process.get(), get_info, &info) != 0 || (info.mask & has_credentials) == 0) return std::nullopt;
  return UserIds{info.ruid, info.euid};
}

std::string boot_id() {
  return std::string(trim(read_file(boot_id_file, 64).value_or("")));
}

model::BootId known_boot() {
  errno = 0;
  std::string id = boot_id();
  if (id.empty()) throw Error(ErrorCode::unavailable, "cannot read the boot's id").about(boot_id_file).because(errno);
  return {std::move(id), is_kernels_own(boot_id_file)};
}

pid_t calling_shell() {
  if (!proc_numbers_are_ours()) return ::getppid();
  const auto caller = read_process(forked_from(::getpid()));
  return forked_from(caller ? caller->parent : ::getppid());
}

// By its program: the short name of a login shell has a dash.
ShellKind kind_of_shell(pid_t shell) {
  const std::string path = executable_of(shell);
  return path.ends_with("csh") ? ShellKind::c : path.ends_with("/fish") ? ShellKind::fish : ShellKind::posix;
}

// "pid (name) state ppid pgrp … starttime(22) …"; the name may hold spaces and parentheses, so the last ')' ends it.
std::optional<ProcessStat> parse_process_stat(const std::string& text) {
  auto open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  auto fields = split(trim(std::string_view(text).substr(close + 1)), ' ');  // fields[0] is field 3 of proc(5)
  auto pid = parse_u64(trim(std::string_view(text).substr(0, open)));
  if (!pid || fields.size() < 20 || fields[0].size() != 1) return std::nullopt;
  auto parent = parse_u64(fields[1]), group = parse_u64(fields[2]), start = parse_u64(fields[19]);
  if (!parent || !start) return std::nullopt;
  return ProcessStat{static_cast<pid_t>(*pid), static_cast<pid_t>(*parent), static_cast<pid_t>(group.value_or(0)), fields[0][0],
                     parse_u64(fields[6]).value_or(0), *start, text.substr(open + 1, close - open - 1), false,
                     static_cast<unsigned>(parse_u64(fields[17]).value_or(1))};
}

bool is_ended_state(char state) { return state == 'Z' || state == 'X'; }
bool is_stopped_state(char state) { return state == 'T' || state == 't'; }

namespace {

std::optional<ProcessStat> read_stat(const std::string& directory) {
  auto text = read_file(directory + "/stat", 4096);
  return text ? parse_process_stat(*text) : std::nullopt;
}

// A living thread of a process whose first one has ended. Where threads take each other's place faster than they are read, the
// process lives all the same: the kernel counts the first one alone once it has ended.
std::optional<ProcessStat> behind_ended(ProcessStat first) {
  for (int looks = 0; is_ended_state(first.state) && first.threads > 1; ++looks) {
    for (const pid_t thread : threads_of(first.pid))
      if (auto found = read_stat(fmt::format("/proc/{}/task/{}", first.pid, thread)); found && !is_ended_state(found->state))
        return found;
    if (looks == 4) {
      first.state = 'R';
      return first;
    }
    const auto now = read_stat(fmt::format("/proc/{}", first.pid));
    if (!now) return std::nullopt;
    first = *now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProcessStat> read_process(pid_t pid) {
  std::optional<ProcessStat> process = read_stat(fmt::format("/proc/{}", pid));
  const auto thread = process ? behind_ended(*process) : std::nullopt;
  if (thread) process->state = thread->state;
  return process;
}

std::optional<ProcessStat> read_self() { return read_stat("/proc/self"); }

std::uint64_t start_for_all(const ProcessStat& process) {
  const long long per_second = ::sysconf(_SC_CLK_TCK);
  const std::chrono::nanoseconds ahead = clocks_ahead().boottime;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ahead);
  const std::uint64_t start = process.start_ticks - static_cast<std::uint64_t>(seconds.count() * per_second +
                                                                               (ahead - seconds).count() * per_second /
                                                                                   1'000'000'000);
  // What has begun before our clock's zero: the kernel's 64 bits of nanoseconds have gone round, to what no clock reaches.
  const std::uint64_t round = ~std::uint64_t{0} / (1'000'000'000 / static_cast<std::uint64_t>(per_second)) + 1;
  return process.start_ticks > round / 2 ? start - round : start;
}

std::uint64_t ticks_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const auto seconds = static_cast<std::uint64_t>(now.tv_sec), rest = static_cast<std::uint64_t>(now.tv_nsec);
  return seconds * per_second + rest * per_second / 1'000'000'000;
}

bool is_same_start(std::uint64_t one, std::uint64_t other) { return one - other + 1 <= 2; }   // also where that wraps round

std::string directory_behind_ended_first(pid_t pid, int* why) {
  const std::string path = fmt::format("/proc/{}", pid);
  errno = 0;
  const std::optional<ProcessStat> first = read_stat(path);
  const auto thread = first ? behind_ended(*first) : std::nullopt;
  if (why) *why = thread ? 0 : errno;
  return thread ? fmt::format("/proc/{}/task/{}", pid, thread->pid) : "";
}

namespace {

// The numbers of a process, from the pid namespace of /proc to its own.
std::vector<pid_t> numbers_of(const std::string& process) {
  std::vector<pid_t> numbers;
  const std::string status = read_file("/proc/" + process + "/status", 16384).value_or("");
  for (std::string_view line : split_lines(status)) {
    if (!line.starts_with("NSpid:")) continue;
    for (auto word : split(trim(line.substr(6)), '\t'))
      if (auto number = parse_u64(word)) numbers.push_back(static_cast<pid_t>(*number));
  }
  return numbers;
}

}  // namespace

std::optional<std::vector<pid_t>> listed_children() {
  std::vector<pid_t> children;
  bool any_list = false;
  const std::size_t ours = proc_numbers_are_ours() ? 0 : numbers_of("self").size();   // an older /proc has them first
  for (const pid_t thread : numbers_in("/proc/self/task")) {
    const auto text = read_file(fmt::format("/proc/self/task/{}/children", thread), 1u << 20);
    if (!text) continue;
    any_list = true;
    for (auto word : split(*text, ' ')) {
      const auto pid = parse_u64(trim(word));
      if (!pid) continue;
      const std::vector<pid_t> all = ours == 0 ? std::vector<pid_t>() : numbers_of(std::to_string(*pid));
      if (ours == 0) children.push_back(static_cast<pid_t>(*pid));
      else if (all.size() >= ours) children.push_back(all[ours - 1]);
    }
  }
  return any_list ? std::optional(std::move(children)) : std::nullopt;
}

std::optional<std::size_t> number_of_own_children() {
  const auto text = read_file("/proc/thread-self/children", 1u << 20);
  if (!text) return std::nullopt;
  return static_cast<std::size_t>(std::ranges::count(*text, ' '));   // one behind each
}

std::vector<pid_t> threads_of(pid_t pid) { return numbers_in("/proc/" + std::to_string(pid) + "/task"); }

// Of all that one process is told of another, hidden or not, only the scheduler's policy has a bit that this one can choose,
// that its children do not inherit, and that changes nothing for it: they would lose a negative nice value.
void be_known_as(const char* name) {
  ::prctl(PR_SET_NAME, name);
  const sched_param none{};
  const int policy = ::sched_getscheduler(0);
  if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE)
    ::sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none);
}

namespace {

// Without asking its file system, which may not answer.
bool find_program(const std::string& link, struct statx& found) {
  return ::statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC, STATX_INO, &found) == 0;
}

}  // namespace

// Anybody can take the name. A program of our own has it from us; one of another version has the lock. One that is ending has
// neither any more, and its children may show it as their parent still.
bool is_of_a_queue(const ProcessStat& process) {
  const bool runner = process.name == runner_name;
  if (!runner && process.name != lane_process_name) return false;
  struct statx its {}, ours {};
  const bool seen = find_program(fmt::format("/proc/{}/exe", process.pid), its);
  if (!seen && (errno == EACCES || errno == EPERM || errno == ENOENT || errno == ESRCH)) return true;
  if (seen && find_program("/proc/self/exe", ours) && its.stx_ino == ours.stx_ino &&
      its.stx_dev_major == ours.stx_dev_major && its.stx_dev_minor == ours.stx_dev_minor)
    return true;
  return runner ? keeps_runner_lock(process.pid) : keeps_lane_lock(process.pid);
}

bool is_of_a_queue(pid_t child) {
  if (const auto process = shown_child(child)) return is_of_a_queue(*process);
  const int policy = ::sched_getscheduler(child);
  return policy >= 0 && (policy & SCHED_RESET_ON_FORK) != 0;
}

std::vector<ProcessStat> our_descendants(std::span<const pid_t> known) {
  const auto all = proc_numbers_are_ours() ? all_processes() : std::vector<ProcessStat>();
  std::vector<ProcessStat> tree = hidden_children(known);
  std::vector<pid_t> parents{::getpid()};
  for (const ProcessStat& child : tree) parents.push_back(child.pid);
  for (std::size_t i = 0; i < parents.size(); ++i)
    for (const auto& process : all) {
      if (process.parent != parents[i] || process.pid == process.parent) continue;
      if (std::ranges::find(parents, process.pid) != parents.end()) continue;  // a reused pid in a torn picture
      if (is_of_a_queue(process) || is_helper(process.pid)) continue;
      parents.push_back(process.pid);
      if (!is_ended_state(process.state)) tree.push_back(process);
    }
  return tree;
}

std::string describe_process(const ProcessStat& process) {
  if (process.hidden) return std::to_string(process.pid) + " (/proc does not show what it is)";
  const std::string words = command_line("/proc/" + std::to_string(process.pid), 4096).text;
  return std::to_string(process.pid) + " " + (words.empty() ? process.name : words);
}

}  // namespace thole::host
