#include "base/poke.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/without_signal.hpp"

namespace thole {

bool poke(int fifo, char what) {
  const WithoutSignal quiet(SIGPIPE);
  return ::write(fifo, &what, 1) == 1 || errno == EAGAIN;
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
