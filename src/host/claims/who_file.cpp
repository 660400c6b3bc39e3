#include "host/claims/who_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace thole::host {

bool reserve_who(int fd) {
  struct stat who;
  const off_t all = sizeof(WhoMask);
  if (::fstat(fd, &who) == 0 && who.st_size > all) (void)!::ftruncate(fd, all);
  const int full = ::posix_fallocate(fd, 0, all);
  return full == 0 || full == EOPNOTSUPP;
}

void WhoFile::read() {
  ssize_t size = ::pread(fd_, &mask_, sizeof mask_, 0);
  if (size != static_cast<ssize_t>(sizeof mask_)) mask_ = {};
  read_ = mask_;
}

void WhoFile::write() {
  if (mask_.slots != read_.slots) (void)!::pwrite(fd_, &mask_, sizeof mask_, 0);
  read_ = mask_;
}

}  // namespace thole::host
