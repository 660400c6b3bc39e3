#include "base/without_signal.hpp"

#include <cerrno>
#include <ctime>

#include "base/stop_self.hpp"

namespace thole {

WithoutSignal::WithoutSignal(int signal) {
  sigemptyset(&held_back_);
  sigaddset(&held_back_, signal);
  ::pthread_sigmask(SIG_BLOCK, &held_back_, &before_);
  was_there_ = is_pending(signal);
}

WithoutSignal::~WithoutSignal() {
  const int why = errno;
  constexpr timespec at_once{};
  while (!was_there_ && ::sigtimedwait(&held_back_, nullptr, &at_once) < 0 && errno == EINTR) {}
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = why;
}

}  // namespace thole
