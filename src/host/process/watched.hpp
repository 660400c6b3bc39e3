// Descriptors that the caller of port::Commands watches: part of each sleep, and told as Readable.
#pragma once

#include <poll.h>

#include <span>
#include <vector>

#include "port/commands.hpp"

namespace thole::host {

class Watched {
 public:
  void watch(int fd, bool on) {
    std::erase(fds_, fd);
    if (on) fds_.push_back(fd);
  }

  void add_to(std::vector<pollfd>& polled) const {
    for (const int fd : fds_) polled.push_back({fd, POLLIN, 0});
  }

  // `polled`: what add_to added, after the sleep.
  static void tell(std::span<const pollfd> polled, std::vector<port::CommandEvent>& events) {
    for (const pollfd& one : polled)
      if (one.revents) events.push_back(port::Readable{one.fd});
  }

 private:
  std::vector<int> fds_;
};

}  // namespace thole::host
