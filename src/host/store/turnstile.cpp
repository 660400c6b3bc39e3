#include "host/store/turnstile.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/error.hpp"

namespace thole::host {

namespace {

[[noreturn]] void no_turnstile(const std::string& path, int why) {
  const bool full = why == ENOSPC || why == EDQUOT;
  throw Error(ErrorCode::unavailable, "cannot open the queue's lock")
      .about(path)
      .because(why)
      .hint(full ? "make room on that disk (df -i)" : "it must be writable; another place: --queue-dir, THOLE_QUEUE_DIR");
}

}  // namespace

Turnstile::Turnstile(const std::string& path) : path_(path) {
  file_ = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file_) no_turnstile(path, errno);
}

Turnstile::Pass Turnstile::pass() {
  while (::flock(file_.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw Error(ErrorCode::unavailable, "cannot lock the queue").about(path_).because(errno);
  return Pass(file_.get());
}

Turnstile::Pass::~Pass() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
}

}  // namespace thole::host
