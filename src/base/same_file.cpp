#include "base/same_file.hpp"

#include <cerrno>

#include "base/error.hpp"
#include "base/open_directory.hpp"
#include "base/text.hpp"
#include "base/want.hpp"

namespace thole {

bool says_absent(int sys_errno) { return sys_errno == ENOENT || sys_errno == ENOTDIR; }

bool says_nothing(int sys_errno) {
  return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM || sys_errno == EIO || sys_errno == EINTR;
}

void refuse_unseen(const std::string& path, int sys_errno) {
  if (says_nothing(sys_errno))
    throw Error(ErrorCode::unavailable, "cannot look").about(path).because(sys_errno).hint(mend_of_want(sys_errno));
}

void refuse_unseen(int fd, int sys_errno) {
  if (says_nothing(sys_errno)) refuse_unseen(shown_path(fmt::format("/proc/self/fd/{}", fd)), sys_errno);
}

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
  return is_one_file(there, open);
}

std::string given_up_fifo_of_root(int fd) {
  struct stat file, now;
  if (::fstat(fd, &file) != 0 || !S_ISFIFO(file.st_mode) || file.st_uid != 0) return "";
  // A file without a mark may have no name left but those that others have given it.
  if ((file.st_mode & (given_up | being_taken)) == 0 && file.st_nlink != 0) return "";
  const std::string path = shown_path(fmt::format("/proc/self/fd/{}", fd));   // that it had
  if (is_at(path, fd)) return "";                // a mark that a killed process has left
  if ((file.st_mode & given_up) != 0) return path;
  const bool other = ::lstat(path.c_str(), &now) == 0 && S_ISFIFO(now.st_mode) && now.st_uid == 0;
  return other ? path : "";
}

}  // namespace thole
