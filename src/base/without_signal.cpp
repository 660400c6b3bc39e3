#include "base/without_signal.hpp"

#include <cerrno>
#include <ctime>

namespace thole {

WithoutSignal::WithoutSignal(int signal) {
  sigemptyset(&held_back_);
  sigaddset(&held_back_, signal);
  ::pthread_sigmask(SIG_BLOCK, &held_back_, &before_);
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  was_there_ = sigismember(&pending, signal) == 1;
}

WithoutSignal::~WithoutSignal() {
  const int why = errno;
  constexpr timespec at_once{};
  while (!was_there_ && ::sigtimedwait(&held_back_, nullptr, &at_once) < 0 && errno == EINTR) {}
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = why;
}

}  // namespace thole
