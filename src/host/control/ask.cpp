#include "host/control/ask.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/control/door.hpp"

namespace thole::host {
namespace {

Fd connect_to(const std::string& directory) {
  Fd place = open_claim_directory(directory, false);
  Fd keeper(above_standard(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, control_path(place.get()).c_str(), sizeof address.sun_path - 1);
  if (!keeper || ::connect(keeper.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw Error(ErrorCode::unavailable, "nobody keeps this claim any more").about(directory).because(errno);
  return keeper;
}

// Everything up to the end of the line, with the descriptors that came along. False at the end of the connection.
bool receive(int keeper, Answer& answer) {
  char text[512];
  alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
  iovec part{text, sizeof text};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(keeper, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) return n < 0 && errno == EINTR;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      answer.fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    throw Error(ErrorCode::unavailable, "not all descriptors of the claim arrived")
        .hint("raise the descriptor limit: ulimit -n");
  answer.text.append(text, static_cast<std::size_t>(n));
  return true;
}

}  // namespace

Answer ask_keeper(const std::string& directory, std::string_view question, Millis patience) {
  Fd keeper = connect_to(directory);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Answer answer;
  bool connected = write_all(keeper.get(), std::string(question) + "\n");
  while (connected && answer.text.find('\n') == std::string::npos) {
    const int left = poll_timeout(deadline, std::chrono::steady_clock::now());
    pollfd watched{keeper.get(), POLLIN, 0};
    const int ready = left > 0 ? ::poll(&watched, 1, left) : 0;
    if (ready == 0)
      throw Error(ErrorCode::unavailable, "the claim's keeper does not answer").about(directory)
          .hint("it may be stopped: kill -CONT its pid, which `thole status` shows");
    if (ready > 0) connected = receive(keeper.get(), answer);
  }
  const std::string line = answer.text.substr(0, answer.text.find('\n'));
  if (line.starts_with("no ")) throw Error(ErrorCode::unavailable, printable(line.substr(3)));
  if (!line.starts_with("ok "))
    throw Error(ErrorCode::unavailable, "the claim's keeper ended without an answer").about(directory);
  answer.text = line.substr(3);
  return answer;
}

port::ClaimAbout parse_about(std::string_view text) {
  port::ClaimAbout about;
  for (auto word : split(text, ' ')) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals), value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
    if (name == "id") about.id = std::string(value);
    if (name == "pid") about.pid = static_cast<pid_t>(parse_u64(value).value_or(0));
    if (name == "kind") about.holder = value == "claim";
    if (name == "until")
      if (auto ms = parse_u64(value)) about.until = WallTime{Millis(static_cast<std::int64_t>(*ms))};
  }
  if (about.id.empty() || about.pid == 0)
    throw Error(ErrorCode::internal, "the claim's keeper answered nonsense").about(printable(text));
  return about;
}

}  // namespace thole::host
