#include "base/same_file.hpp"

#include <sys/stat.h>

namespace thole {

bool is_at(const std::string& path, int fd) {
  struct stat there {}, open {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &open) == 0 && there.st_ino == open.st_ino &&
         there.st_dev == open.st_dev;
}

}  // namespace thole
