#include "host/probe/channel.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "host/gpu/amd/backend.hpp"
#include "host/gpu/intel/backend.hpp"
#include "host/gpu/nvidia/probe.hpp"
#include "host/topology/reader.hpp"

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

int probe_main(const std::string& name) {
  struct rlimit none {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);                         // a driver library that crashes is no reason for a core file
  ::signal(SIGPIPE, SIG_IGN);
  if (name == "nvidia") return nvidia::serve_probe(ProbeChannel::take_over_stdio());
  if (name == "amd") return serve_probe(amd::vendor, ProbeChannel::take_over_stdio());
  if (name == "intel") return serve_probe(intel::vendor, ProbeChannel::take_over_stdio());
  if (name == "topology") return serve_topology_probe(ProbeChannel::take_over_stdio());
  return 64;
}

}  // namespace thole::host
