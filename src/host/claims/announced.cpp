#include "host/claims/announced.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"

namespace thole::host {

Fd announce(int directory, const NodeMaker& maker, const char* name) {
  const std::string unfinished = std::string("new.") + name;
  ::unlinkat(directory, unfinished.c_str(), 0);
  Fd file = maker.make_file(unfinished, 0600);
  struct flock wanted = byte_range(F_WRLCK, 0, 1);   // a reader's lock would be in the way
  if (!file || ::fcntl(file.get(), F_OFD_SETLK, &wanted) != 0 || ::fchmod(file.get(), 0644) != 0 ||
      ::renameat(directory, unfinished.c_str(), directory, name) != 0)
    throw Error(ErrorCode::unavailable, "cannot tell others what is about to be done").about(name).because(errno);
  return file;
}

bool is_announced(int directory, const char* name, uid_t owner) {
  const Fd file = open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat about;
  if (!file) return says_nothing(errno);
  if (::fstat(file.get(), &about) != 0) return true;
  if (about.st_uid != owner) return false;
  struct flock asked = byte_range(F_RDLCK, 0, 1);
  return ::fcntl(file.get(), F_OFD_GETLK, &asked) != 0 || asked.l_type != F_UNLCK;
}

}  // namespace thole::host
