#include "host/control/message.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace thole::host {

bool receive(int socket, Answer& answer, bool with_descriptors) {
  char text[512];
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))];
  iovec part{text, sizeof text};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (with_descriptors) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) return n < 0 && errno == EINTR;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      answer.fds.emplace_back(fd);
    }
  }
  if (with_descriptors && (message.msg_flags & MSG_CTRUNC) != 0)
    throw Error(ErrorCode::unavailable, "not all descriptors of the claim arrived")
        .hint("raise the descriptor limit: ulimit -n");
  answer.text.append(text, static_cast<std::size_t>(n));
  return true;
}

void send_message(int socket, std::string_view text, std::span<const int> fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace thole::host
