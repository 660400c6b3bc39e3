#include "base/same_file.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"

namespace thole {

bool says_absent(int sys_errno) { return sys_errno == ENOENT || sys_errno == ENOTDIR; }

bool is_there(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0) return true;
  if (says_absent(errno)) return false;
  throw Error(ErrorCode::unavailable, "cannot see whether this is there").about(path).because(errno);
}

bool is_at(const std::string& path, int fd) {
  struct stat there {}, open {};
  if (::fstat(fd, &open) != 0) return true;
  if (::lstat(path.c_str(), &there) != 0) return !says_absent(errno);
  return there.st_ino == open.st_ino && there.st_dev == open.st_dev;
}

}  // namespace thole
