#include "base/fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"

namespace thole {

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd open_at(int dir_fd, const char* path, int flags, mode_t mode) {
  int fd;
  do { fd = ::openat(dir_fd, path, flags | O_CLOEXEC, mode); } while (fd < 0 && errno == EINTR);
  return Fd(above_standard(fd));
}

Fd moved_above(Fd fd, int number) {
  if (!fd || fd.get() > number) return fd;
  return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, number + 1));
}

std::optional<struct stat> named(int dir_fd, const char* name, int fd) {
  struct stat open, there;
  if (::fstat(fd, &open) != 0 || ::fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) != 0 || open.st_ino != there.st_ino ||
      open.st_dev != there.st_dev)
    return std::nullopt;
  return open;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw not_had("cannot make a pipe", errno);
  return {Fd(above_standard(ends[0])), Fd(above_standard(ends[1]))};
}

Fd open_pidfd(pid_t pid) { return Fd(above_standard(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))); }

std::optional<std::string> read_file(const std::string& path, std::size_t limit) {
  Fd fd = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  return fd ? read_all(fd.get(), limit) : std::nullopt;
}

std::string read_link(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return std::string(target, length > 0 ? static_cast<std::size_t>(length) : 0);
}

bool may_execute(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

namespace {

template <class Again>
bool write_while(int fd, std::string_view bytes, const Again& again) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && again()) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

bool write_all(int fd, std::string_view bytes) {
  return write_while(fd, bytes, [] { return errno == EINTR; });
}

bool put_all(int fd, std::string_view bytes) {
  return write_while(fd, bytes, [fd] { return again_when(fd, POLLOUT); });
}

bool append_whole(int fd, std::string_view bytes) {
  const off_t before = ::lseek(fd, 0, SEEK_END);
  if (write_all(fd, bytes)) return true;
  const int why = errno;
  const off_t now = ::lseek(fd, 0, SEEK_CUR);
  if (before >= 0 && now > before) (void)!::ftruncate(fd, before);
  errno = why;
  return false;
}

void write_file(const std::string& path, std::string_view bytes, mode_t mode) {
  std::string temporary = path + ".XXXXXX";
  Fd fd(above_standard(::mkostemp(temporary.data(), O_CLOEXEC)));
  if (!fd) throw Error(ErrorCode::unavailable, "cannot write").about(path).because(errno);
  bool ok = write_all(fd.get(), bytes) && ::fchmod(fd.get(), mode) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (ok) return;
  int reason = errno;
  ::unlink(temporary.c_str());
  throw Error(ErrorCode::unavailable, "cannot write").about(path).because(reason);
}

}  // namespace thole
