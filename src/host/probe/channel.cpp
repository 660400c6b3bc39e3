#include "host/probe/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace thole::host {

ProbeChannel ProbeChannel::take_over_stdio() {
  ProbeChannel channel;
  channel.in_ = Fd(::fcntl(0, F_DUPFD_CLOEXEC, 10));
  channel.out_ = Fd(::fcntl(1, F_DUPFD_CLOEXEC, 10));
  Fd null = open_at(AT_FDCWD, "/dev/null", O_RDWR);
  for (int fd : {0, 1, 2})
    if (null) ::dup2(null.get(), fd);
    else ::close(fd);
  return channel;
}

bool ProbeChannel::fill() {
  char bytes[4096];
  ssize_t n;
  do { n = ::read(in_.get(), bytes, sizeof bytes); } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(n));
  return true;
}

std::optional<std::string> ProbeChannel::next_line() {
  auto end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

bool ProbeChannel::send(std::string_view line) const { return write_all(out_.get(), std::string(line) + "\n"); }

}  // namespace thole::host
