#include "base/standard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace thole {

void fill_standard_descriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(::open("/", O_PATH | O_CLOEXEC));  // gets the lowest free number
}

int above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int kept = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return kept;
}

}  // namespace thole
