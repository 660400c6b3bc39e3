#include "host/queue/runner_seat.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/process/open_files.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr Seconds patience_with_flock{5};

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The seat that this process has taken last, while its descriptor is open.
struct Kept {
  pid_t by = 0;
  int file = -1;
} own_seat;

bool is_same(int one, int other) {
  struct stat a {}, b {};
  return one >= 0 && ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

// Once it was given up its number is free for others, such as this look.
bool is_own_seat(const Fd& look) {
  return own_seat.by == ::getpid() && own_seat.file != look.get() && is_same(own_seat.file, look.get());
}

// Without access; empty, with errno, where it cannot be looked at.
Fd look_for(const std::string& name) { return open_at(AT_FDCWD, name.c_str(), O_PATH | O_NOFOLLOW); }

// What was looked at, and no other file that has its name by now.
Fd open_what_was_seen(const Fd& look, int flags) {
  return open_at(AT_FDCWD, fmt::format("/proc/self/fd/{}", look.get()).c_str(), flags | O_NONBLOCK | O_NOCTTY);
}

[[noreturn]] void cannot_open_seat(const std::string& name) {
  const int why = errno;
  throw Error(ErrorCode::unavailable, "cannot open the runner's lock")
      .about(name)
      .because(why)
      .hint(why == ENOSPC || why == EDQUOT ? "make room on that disk" : "thole doctor");
}

// The file, made when it is missing. Empty: `seat`, or else another seat of this process, is of that file.
Fd open_seat(const std::string& name, const Fd& seat) {
  for (;;) {
    const Fd look = look_for(name);
    if (look && (is_same(look.get(), seat.get()) || is_own_seat(look))) return Fd();
    Fd file = look ? open_what_was_seen(look, O_RDWR)
                   : create_at(AT_FDCWD, name.c_str(), O_RDWR | O_EXCL | O_NOFOLLOW, 0600);
    if (file) return file;
    if (look || errno != EEXIST) cannot_open_seat(name);
  }
}

// Another process than this one.
std::optional<pid_t> locker_of(const Fd& file) {
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return std::max(lock.l_pid, 0);
}

// A runner that has the flock and no record lock: its text says who it is, its descriptor that it has. By the /proc of another
// pid namespace nobody is known: there that number is another process' than here.
std::optional<pid_t> older_runner(const Fd& file) {
  if (!proc_numbers_are_ours()) return std::nullopt;
  char text[32];
  const ssize_t n = ::pread(file.get(), text, sizeof text, 0);
  const auto number = parse_u64(trim(std::string_view(text, n > 0 ? static_cast<std::size_t>(n) : 0)));
  if (!number || *number == 0 || *number > INT_MAX) return std::nullopt;
  const auto pid = static_cast<pid_t>(*number);
  const auto process = read_process(pid);
  if (!process || process->name != runner_name || pid == ::getpid()) return std::nullopt;
  return keeps_lock(pid, file.get(), to_the_end).value_or(false) ? std::optional(pid) : std::nullopt;
}

// So that programs from before the record lock see that a runner lives. One of theirs is ended for us: no task ends with it,
// and its lanes are ours from then on. Anybody else who has the lock has it for a moment, as a lane that was forked by a runner
// which was killed then.
void take_flock(const Fd& file) {
  const SteadyTime give_up = std::chrono::steady_clock::now() + patience_with_flock;
  Fd ending;
  for (Backoff pause; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; pause.rest()) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() > give_up) return;
    if (ending) continue;
    if (const std::optional<pid_t> older = older_runner(file))
      ending = signal_found(*older, [&] { return older_runner(file) == older; }, SIGKILL);
  }
}

constexpr std::uint64_t bits_of(std::initializer_list<int> signals) {
  std::uint64_t bits = 0;
  for (const int signal : signals) bits |= std::uint64_t{1} << (signal - 1);
  return bits;
}

// Of a process that /proc does not show: it may live, and be hidden from us.
bool has_ended(pid_t pid) {
  const Fd end = open_pidfd(pid);
  if (end) return is_readable(end.get());
  return !is_any_process(pid);                   // no pidfd: an old kernel, or no descriptor to look with
}

}  // namespace

bool take_seat(const std::string& name, Fd& seat) {
  Fd file = open_seat(name, seat);
  if (!file) return static_cast<bool>(seat);
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) return false;
    throw Error(ErrorCode::unavailable, "cannot lock the queue").about(name).because(errno);
  }
  take_flock(file);
  seat = std::move(file);
  own_seat = {::getpid(), seat.get()};
  return true;
}

void check_seat(const std::string& name) { static_cast<void>(open_seat(name, Fd())); }

// Asked twice, since the number of one who has ended may be another's by the time he is looked at.
SeatLook look_at_seat(const std::string& name) {
  const Fd look = look_for(name);
  if (look && is_own_seat(look)) return {SeatLook::kept, ::getpid()};
  const Fd file = look ? open_what_was_seen(look, O_RDONLY) : Fd();
  if (!file && !look && says_absent(errno)) return {SeatLook::missing, 0};
  if (!file) cannot_open_seat(name);             // not "empty": another runner would be started for it
  for (;;) {
    const std::optional<pid_t> pid = locker_of(file);
    if (!pid) return {older_runner(file) ? SeatLook::older : SeatLook::empty, 0};
    const bool dying = *pid > 0 && is_dying(*pid);
    if (locker_of(file) == pid) return {dying ? SeatLook::dying : SeatLook::kept, *pid};
  }
}

// A process that has been killed keeps its descriptors until it gets to run once more, and on a busy machine that takes a
// while; one that writes its core keeps them longer: what is written to it then is lost. Flags of the kernel (PF_EXITING,
// PF_DUMPCORE, PF_SIGNALED) or a pending signal that will end it say so, where /proc shows them. One that it hides from us
// (hidepid=2 and other groups than ours; a user namespace) is dying when it has ended.
bool is_dying(pid_t pid) {
  constexpr std::uint64_t ending = 0x4 | 0x200 | 0x400;
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!stat) return has_ended(pid);                      // hidden, or ended
  const auto process = parse_process_stat(*stat);
  if (process && (process->flags & ending) != 0) return true;
  std::uint64_t pending = 0, harmless = bits_of({SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU});
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status", 16384).value_or("");
  for (const std::string_view line : split_lines(status)) {
    const auto bits = [&] { return parse_u64(trim(line.substr(7)), 16).value_or(0); };
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) pending |= bits();
    if (line.starts_with("SigBlk:") || line.starts_with("SigIgn:") || line.starts_with("SigCgt:")) harmless |= bits();
  }
  const bool stopped = process && is_stopped_state(process->state);   // another hears nothing but KILL
  return (pending & (stopped ? bits_of({SIGKILL}) : ~harmless)) != 0;
}

bool ends_by(pid_t pid, std::optional<SteadyTime> deadline) {
  const Fd end = open_pidfd(pid);
  if (end) return is_readable_by(end.get(), deadline);
  if (errno == ESRCH) return true;
  throw Error(ErrorCode::unavailable, "cannot wait for the old runner's end").because(errno).hint("see the limits: ulimit -n");
}

void Backoff::rest() {
  const timespec pause{0, pause_ns_};
  ::nanosleep(&pause, nullptr);
  pause_ns_ = std::min(pause_ns_ * 2, 50'000'000L);
}

}  // namespace thole::host
