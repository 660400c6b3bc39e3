#include "base/poke.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace thole {

// SIGPIPE comes to the thread that writes. It is held back and taken away again, unless one was there before.
bool poke(int fifo, char what) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  sigemptyset(&pending);
  ::sigpending(&pending);
  const bool told = ::write(fifo, &what, 1) == 1 || errno == EAGAIN;
  const bool ours = !told && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0;
  constexpr timespec at_once{};
  while (ours && ::sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) {}
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return told;
}

Poked pokes_of(int fifo) {
  constexpr unsigned most_reads = 16;            // a FIFO's usual 64 KiB
  char bytes[4096];
  Poked poked;
  for (unsigned reads = 0; reads < most_reads; ++reads) {
    const ssize_t size = ::read(fifo, bytes, sizeof bytes);
    if (size <= 0) break;
    poked.at_all = true;
    poked.to_leave = poked.to_leave || std::find(bytes, bytes + size, ask_to_leave) != bytes + size;
  }
  return poked;
}

}  // namespace thole
