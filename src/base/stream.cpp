#include "base/stream.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace thole {
namespace {

constexpr unsigned most_reads = 16;   // a pipe's usual 64 KiB

template <class Again>
std::optional<std::string> read_while(int fd, std::size_t limit, const Again& again) {
  std::string text;
  char buffer[65536];
  while (text.size() < limit) {
    const ssize_t n = ::read(fd, buffer, std::min(sizeof buffer, limit - text.size()));
    if (n < 0 && again()) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

bool again_when(int fd, short events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, -1) >= 0 || errno == EINTR;
}

std::optional<std::string> read_all(int fd, std::size_t limit) {
  return read_while(fd, limit, [] { return errno == EINTR; });
}

std::optional<std::string> await_all(int fd, std::size_t limit) {
  return read_while(fd, limit, [fd] { return again_when(fd, POLLIN); });
}

bool drain(int fd) {
  char bytes[4096];
  unsigned reads = 0;
  while (reads < most_reads && ::read(fd, bytes, sizeof bytes) > 0) ++reads;
  return reads != 0;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

bool is_readable_by(int fd, std::optional<SteadyTime> deadline) {
  pollfd one{fd, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&one, 1, poll_timeout(deadline, std::chrono::steady_clock::now()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

std::optional<std::vector<bool>> wait_for(std::span<const int> fds, std::optional<SteadyTime> deadline, SteadyTime now) {
  std::vector<pollfd> polled;
  polled.reserve(fds.size());
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  const int ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline, now));
  if (ready < 0 && errno != EINTR) return std::nullopt;
  std::vector<bool> which(fds.size());
  for (std::size_t i = 0; ready > 0 && i < polled.size(); ++i) which[i] = polled[i].revents != 0;
  return which;
}

bool any_ready(std::span<const int> fds, Millis wait) {
  const SteadyTime begin{};
  const auto ready = wait_for(fds, begin + wait, begin);
  return ready && std::ranges::find(*ready, true) != ready->end();
}

std::optional<std::size_t> read_some(int fd, char* to, std::size_t most) {
  ssize_t size;
  do { size = ::read(fd, to, most); } while (size < 0 && errno == EINTR);
  if (size < 0) return std::nullopt;
  return static_cast<std::size_t>(size);
}

std::optional<std::string> read_beginning(int file, std::size_t size) {
  std::string text(size, '\0');
  std::size_t at = 0;
  while (at < size) {
    const ssize_t n = ::pread(file, text.data() + at, size - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  text.resize(at);
  return text;
}

bool may_wait(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode);
}

bool is_terminal(int fd) { return ::isatty(fd) != 0; }

int poll_timeout(std::optional<SteadyTime> deadline, SteadyTime now) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<Millis>(*deadline - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace thole
