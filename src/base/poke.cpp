#include "base/poke.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace thole {

// SIGPIPE comes to the thread that writes. It is held back and taken away again, unless one was there before.
bool poke(int fifo) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  sigemptyset(&pending);
  ::sigpending(&pending);
  const bool told = ::write(fifo, "!", 1) == 1 || errno == EAGAIN;
  const bool ours = !told && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0;
  constexpr timespec at_once{};
  while (ours && ::sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) {}
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return told;
}

}  // namespace thole
