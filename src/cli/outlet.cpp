#include "cli/outlet.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <csignal>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "base/without_signal.hpp"

namespace thole::cli {
namespace {

constexpr std::size_t most_kept = 1024 * 1024, one_piece = 64 * 1024;
constexpr Millis moment{100};

std::atomic<Outlet*> outlet{nullptr};

enum class Taker { file, pipe, socket, terminal };

Taker taker_of(int fd) {
  struct stat about {};
  if (::fstat(fd, &about) != 0) return Taker::file;
  if (S_ISFIFO(about.st_mode)) return Taker::pipe;
  if (S_ISSOCK(about.st_mode)) return Taker::socket;
  return S_ISCHR(about.st_mode) && is_terminal(fd) ? Taker::terminal : Taker::file;
}

bool is_same(int one, int other) {
  struct stat a {}, b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Each is a descriptor: others are needed for tasks.
std::size_t most_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(limit.rlim_cur / 16), 1, 16);
}

// Without waiting, and of this opening alone. Not of a pty's master: its name opens another pty.
Fd opened_anew(int fd) {
  unsigned number = 0;
  if (::ioctl(fd, TIOCGPTN, &number) == 0) return {};
  return Fd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool is_writable(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  return ::poll(&ready, 1, 0) > 0;
}

}  // namespace

struct Outlet::Kept {
  int fd = -1;
  std::string text{};
  std::size_t at = 0;
  std::shared_ptr<const Fd> file{};              // else: this, from `at`
  std::size_t end = static_cast<std::size_t>(-1);   // of its part
  std::size_t bytes = 0;                         // that are counted: a file of its own counts as one
  bool is_own_file = false;
};

struct Outlet::Line {
  std::deque<Kept> kept;
  std::size_t bytes = 0, files = 0;
  bool has_thread = false;
  bool is_behind = false;

  void count(const Kept& one, bool more) {
    static const std::size_t many = most_files();
    bytes = more ? bytes + one.bytes : bytes - one.bytes;
    if (one.is_own_file) files = more ? files + 1 : files - 1;
    if (bytes > most_kept || files > many) is_behind = true;
    else if (bytes <= most_kept / 2 && files <= many / 2) is_behind = false;
  }
};

struct Outlet::Lines {
  struct Target {
    std::optional<Taker> taker;                  // once it has been written to
    Fd anew;                                     // of a terminal or a pipe
    int failed = 0;                              // errno
  };
  std::mutex mutex;
  std::condition_variable all_written, more;
  bool is_closed = false;                        // nothing more is put
  std::array<Line, 3> lines;                     // of stdout, of stderr, of another one
  std::array<Target, 3> targets;
  Fd other;                                      // a copy: threads may outlive the one that was given
  std::optional<bool> is_one;                    // once it has been looked at
  Fd news;                                       // made for whoever waits for it
  bool are_told = false;
  int not_read = 0;                              // errno

  static std::size_t number(int fd) { return fd == STDOUT_FILENO ? 0 : fd == STDERR_FILENO ? 1 : 2; }
  int own(int fd) {
    if (number(fd) < 2) return fd;
    if (!other) other = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    return other.get();
  }
  Line& line_of(int fd) {
    if (!is_one) is_one = is_same(STDOUT_FILENO, STDERR_FILENO);
    return lines[*is_one && number(fd) == 1 ? 0 : number(fd)];
  }
  bool waits(int fd) {                           // for what was told before
    return std::ranges::any_of(lines, [](const Line& line) { return !line.kept.empty(); }) && !line_of(fd).kept.empty();
  }
  void tell() {
    const std::uint64_t one = 1;
    if (news && !std::exchange(are_told, true)) (void)!::write(news.get(), &one, sizeof one);
  }

  ssize_t write_some(int fd, std::string_view bytes);
  bool put_now(int fd, std::string_view& bytes);
  bool put_in_order(int fd, std::string_view& bytes);
  void keep(const std::shared_ptr<Lines>& self, Kept kept, std::unique_lock<std::mutex>& lock);
  bool start(const std::shared_ptr<Lines>& self, Line& line);
  void write_kept(Line& line);
  void write_piece(Line& line, std::unique_lock<std::mutex>& lock);
};

// -1 and EAGAIN where it would wait.
ssize_t Outlet::Lines::write_some(int fd, std::string_view bytes) {
  Target& target = targets[number(fd)];
  if (!target.taker) {
    target.taker = taker_of(fd);
    if (target.taker == Taker::terminal || target.taker == Taker::pipe) target.anew = opened_anew(fd);
  }
  switch (*target.taker) {
    case Taker::file: return ::write(fd, bytes.data(), bytes.size());
    case Taker::socket: return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    case Taker::pipe:
      if (target.anew) return ::write(target.anew.get(), bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
      if (is_writable(fd)) return ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
      break;
    case Taker::terminal:
      if (target.anew) return ::write(target.anew.get(), bytes.data(), bytes.size());
      break;
  }
  errno = EAGAIN;
  return -1;
}

// What does not have to wait; the rest is left in `bytes`. False with errno where nothing can be written.
bool Outlet::Lines::put_now(int fd, std::string_view& bytes) {
  std::optional<WithoutSignal> quiet;
  if (number(fd) == 2) quiet.emplace(SIGPIPE);          // of what is not our output it is told why it cannot be written
  while (!bytes.empty()) {
    const ssize_t n = write_some(fd, bytes);
    if (n >= 0) bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN) return true;
    else if (errno != EINTR) return false;
  }
  return true;
}

// The same, but for what was told before and is still kept.
bool Outlet::Lines::put_in_order(int fd, std::string_view& bytes) {
  if (const int why = targets[number(fd)].failed) {
    errno = why;
    return false;
  }
  return waits(fd) || put_now(fd, bytes);
}

void Outlet::Lines::keep(const std::shared_ptr<Lines>& self, Kept kept, std::unique_lock<std::mutex>& lock) {
  Line& line = line_of(kept.fd);
  const Target& target = targets[number(kept.fd)];
  const bool may_be_soon = target.taker == Taker::terminal && !target.anew;
  line.count(kept, true);
  line.kept.push_back(std::move(kept));
  (void)start(self, line);                       // else it is tried again when it is waited for
  more.notify_all();
  if (may_be_soon) all_written.wait_for(lock, moment, [&] { return line.kept.empty(); });
}

// Whether somebody writes what is kept there.
bool Outlet::Lines::start(const std::shared_ptr<Lines>& self, Line& line) {
  if (line.has_thread) return true;
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);   // none is taken there, nor does SIGPIPE end us
  try {
    std::thread([self, &line] { self->write_kept(line); }).detach();
    line.has_thread = true;
  } catch (const std::system_error&) {             // as many as may be
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return line.has_thread;
}

void Outlet::Lines::write_kept(Line& line) {
  std::unique_lock lock(mutex);
  for (;;) {
    more.wait(lock, [&] { return is_closed || !line.kept.empty(); });
    if (line.kept.empty()) break;
    while (!line.kept.empty()) write_piece(line, lock);
    tell();
    all_written.notify_all();
  }
}

void Outlet::Lines::write_piece(Line& line, std::unique_lock<std::mutex>& lock) {
  Kept& first = line.kept.front();               // others are only put behind it
  lock.unlock();
  std::string part;
  std::string_view piece(first.text);
  bool is_over = false;
  int unread = 0;
  if (first.file) {
    part.resize(std::min(one_piece, first.end - first.at));
    const ssize_t n = ::pread(first.file->get(), part.data(), part.size(), static_cast<off_t>(first.at));
    part.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    piece = part;
    is_over = n <= 0 && !(n < 0 && errno == EINTR);
    unread = n < 0 && is_over ? errno : 0;
  } else {
    piece.remove_prefix(first.at);
    is_over = piece.empty();
  }
  ssize_t n = 0;
  if (!piece.empty()) {
    n = ::write(first.fd, piece.data(), std::min(piece.size(), one_piece));
    if (n < 0 && errno == EAGAIN) {              // somebody else has it so that nobody waits
      pollfd ready{first.fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    }
  }
  const int why = n < 0 ? errno : 0;
  lock.lock();
  if (unread != 0) not_read = unread;
  if (n > 0) first.at += static_cast<std::size_t>(n);
  if (why != 0 && why != EINTR && why != EAGAIN) {
    targets[number(first.fd)].failed = why;
    is_over = true;
  }
  if (is_over) {
    line.count(first, false);
    line.kept.pop_front();
  }
  if (n != 0 || is_over) tell();
}

Outlet::Outlet(Writers writers) : lines_(std::make_shared<Lines>()) {
  if (writers == Writers::at_once) {
    const std::lock_guard lock(lines_->mutex);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
      if (!lines_->start(lines_, lines_->line_of(fd)))
        throw thread_not_started(EAGAIN);
  }
  outlet = this;
}

Outlet::~Outlet() {
  outlet = nullptr;
  const std::lock_guard lock(lines_->mutex);
  lines_->is_closed = true;
  lines_->more.notify_all();
}

Outlet* Outlet::current() { return outlet; }

bool Outlet::put(int fd, std::string_view bytes) {
  std::unique_lock lock(lines_->mutex);
  fd = lines_->own(fd);
  if (!lines_->put_in_order(fd, bytes)) return false;
  if (!bytes.empty()) lines_->keep(lines_, {.fd = fd, .text = std::string(bytes), .bytes = bytes.size()}, lock);
  return true;
}

bool Outlet::put(int fd, Fd file) {
  return put_file(fd, {.file = std::make_shared<const Fd>(std::move(file)), .is_own_file = true});
}

bool Outlet::put(int fd, std::shared_ptr<const Fd> file, std::size_t from, std::size_t size) {
  return put_file(fd, {.at = from, .file = std::move(file), .end = from + size});
}

bool Outlet::put_file(int fd, Kept kept) {
  std::string part(one_piece, '\0');
  for (;;) {
    const std::size_t most = std::min(one_piece, kept.end - kept.at);
    const ssize_t n = ::pread(kept.file->get(), part.data(), most, static_cast<off_t>(kept.at));
    if (n < 0 && errno == EINTR) continue;
    std::unique_lock lock(lines_->mutex);
    if (n < 0) lines_->not_read = errno;
    if (n <= 0) return true;
    kept.fd = lines_->own(fd);
    std::string_view piece(part.data(), static_cast<std::size_t>(n));
    if (!lines_->put_in_order(kept.fd, piece)) return false;
    kept.at += static_cast<std::size_t>(n) - piece.size();
    if (piece.empty()) continue;
    if (!kept.is_own_file) kept.bytes = kept.end - kept.at;
    lines_->keep(lines_, std::move(kept), lock);
    return true;
  }
}

bool Outlet::is_behind() const {
  const std::lock_guard lock(lines_->mutex);
  return std::ranges::any_of(lines_->lines, &Line::is_behind);
}

int Outlet::take_unread() {
  const std::lock_guard lock(lines_->mutex);
  return std::exchange(lines_->not_read, 0);
}

int Outlet::failed(int fd) const {
  const std::lock_guard lock(lines_->mutex);
  return lines_->targets[Lines::number(fd)].failed;
}

int Outlet::fd() const {
  const std::lock_guard lock(lines_->mutex);
  if (!lines_->news) lines_->news = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!lines_->news) throw Error(ErrorCode::unavailable, "cannot wait for who reads what is told").because(errno);
  return lines_->news.get();
}

void Outlet::taken() const {
  const std::lock_guard lock(lines_->mutex);
  std::uint64_t times = 0;
  if (std::exchange(lines_->are_told, false)) (void)!::read(lines_->news.get(), &times, sizeof times);
}

bool Outlet::drain(std::span<const int> until, std::optional<Millis> patience) {
  const auto is_over = [&] {
    std::unique_lock lock(lines_->mutex);
    for (Line& line : lines_->lines)               // where there may be no thread it waits itself
      while (!line.kept.empty() && !lines_->start(lines_, line)) lines_->write_piece(line, lock);
    return std::ranges::all_of(lines_->lines, [](const Line& line) { return line.kept.empty(); });
  };
  if (is_over()) return true;
  std::vector<pollfd> ready{{fd(), POLLIN, 0}};
  for (const int one : until) ready.push_back({one, POLLIN, 0});
  for (;;) {
    taken();
    if (is_over()) return true;
    const int happened = ::poll(ready.data(), ready.size(), patience ? static_cast<int>(patience->count()) : -1);
    if (happened < 0 && errno != EINTR) return false;
    if (happened == 0) return false;
    if (happened > 0 && ready.front().revents == 0) return false;
  }
}

}  // namespace thole::cli
