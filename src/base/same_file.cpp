#include "base/same_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/error.hpp"
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

std::string replaced_fifo_of_root(int fd) {
  constexpr std::string_view deleted = " (deleted)";   // as the kernel writes
  struct stat file, now;
  if (::fstat(fd, &file) != 0 || !S_ISFIFO(file.st_mode) || file.st_nlink != 0 || file.st_uid != 0) return "";
  char text[4096];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text, sizeof text);
  std::string path(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!path.ends_with(deleted)) return "";
  path.resize(path.size() - deleted.size());
  const bool other = ::lstat(path.c_str(), &now) == 0 && S_ISFIFO(now.st_mode) && now.st_uid == 0;
  return other ? path : "";
}

}  // namespace thole
