// A line and the descriptors that go with it, over a claim's socket.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {

inline constexpr std::size_t most_descriptors = 253;   // in one message (SCM_MAX_FD)

struct Answer {
  std::string text;
  std::vector<Fd> fds;
};

// Adds what has arrived. False at the end of the connection. Throws Error(unavailable) where descriptors found no room here.
// Not `with_descriptors`: the kernel drops them, for the end of a stranger's may take as long as he likes.
bool receive(int socket, Answer& answer, bool with_descriptors);

// In one message, without waiting; at most most_descriptors.
void send_message(int socket, std::string_view text, std::span<const int> fds);

}  // namespace thole::host
