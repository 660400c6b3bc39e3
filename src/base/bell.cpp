#include "base/bell.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/standard.hpp"
#include "base/want.hpp"

namespace thole {

Bell::Bell() : fd_(above_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (!fd_) throw not_had("cannot make a descriptor", errno);
}

void Bell::ring() {
  const std::uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

void Bell::silence() {
  std::uint64_t count;
  (void)!::read(fd_.get(), &count, sizeof count);
}

}  // namespace thole
