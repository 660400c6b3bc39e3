#include "base/no_pipe_signal.hpp"

#include <cerrno>
#include <ctime>

namespace thole {

NoPipeSignal::NoPipeSignal() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  was_there_ = sigismember(&pending, SIGPIPE) == 1;
}

NoPipeSignal::~NoPipeSignal() {
  const int why = errno;
  constexpr timespec at_once{};
  while (!was_there_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {}
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = why;
}

}  // namespace thole
