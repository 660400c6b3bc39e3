#include "host/control/received.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "host/control/message.hpp"
#include "host/process/inherited_descriptors.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_line_received = 4096;

// The whole answer, with the locks where it is one.
void hand_on(int keeper, Answer& answer, const port::CheckLocks& check, int to) {
  while (answer.text.find('\n') == std::string::npos && answer.text.size() < longest_line_received)
    if (!receive(keeper, answer, true)) return;
  std::vector<int> locks;
  for (const Fd& fd : answer.fds) locks.push_back(fd.get());
  if (locks.size() > most_descriptors) throw Error(ErrorCode::unavailable, "the claim's keeper sends too many descriptors");
  if (answer.text.starts_with("ok ") && check) check(answer.fds);
  send_message(to, answer.text, locks);
}

[[noreturn]] void be_receiver(int keeper, Millis patience, const port::CheckLocks& check, int to) {
  leave_caller();
  const timeval limit{patience.count() / 1000, patience.count() % 1000 * 1000};
  ::setsockopt(keeper, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  Answer answer;   // its files are closed after all is said
  try {
    hand_on(keeper, answer, check, to);
  } catch (const Error& error) {
    send_message(to, "no " + printable(error.full()) + "\n", {});
  } catch (...) {
  }
  ::shutdown(to, SHUT_WR);   // the end of this process may not come
  ::_exit(0);
}

}  // namespace

Fd received_elsewhere(int keeper, Millis patience, const port::CheckLocks& check) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::unavailable, "cannot receive the locks of another user's claim").because(errno);
  Fd ours(above_standard(ends[0])), theirs(above_standard(ends[1]));
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(ErrorCode::unavailable, "cannot receive the locks of another user's claim").because(errno);
  if (pid == 0) {   // nobody waits for who may not end: it is no child of ours
    ours.reset();
    if (::fork() == 0) be_receiver(keeper, patience, check, theirs.get());
    ::_exit(0);
  }
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
  return ours;
}

}  // namespace thole::host
