#include "base/same_file.hpp"

#include <cerrno>
#include <filesystem>
#include <system_error>

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

namespace {

constexpr uid_t unknown_here = 65534;            // overflowuid, user_namespaces(7)

bool is_roots_fifo(const struct stat& file) {
  return S_ISFIFO(file.st_mode) && (file.st_uid == 0 || file.st_uid == unknown_here);
}

}  // namespace

std::string given_up_fifo_of_root(int fd) {
  struct stat file, now;
  if (::fstat(fd, &file) != 0 || !is_roots_fifo(file)) return "";
  // A file without a mark may have no name left but those that others have given it.
  if ((file.st_mode & (given_up | being_taken)) == 0 && file.st_nlink != 0) return "";
  const std::string path = shown_path(fmt::format("/proc/self/fd/{}", fd));   // that it had
  if (is_at(path, fd)) return "";                // a mark that a killed process has left
  if ((file.st_mode & given_up) != 0) return path;
  const bool other = ::lstat(path.c_str(), &now) == 0 && is_roots_fifo(now);
  return other ? path : "";
}

std::vector<std::string> given_up_fifos_of_root() {
  std::vector<std::string> paths;
  std::error_code unread;
  std::filesystem::directory_iterator entry("/proc/self/fd", unread);
  for (const std::filesystem::directory_iterator end; !unread && entry != end; entry.increment(unread))
    if (const auto fd = parse_u64(entry->path().filename().string()))
      if (std::string path = given_up_fifo_of_root(static_cast<int>(*fd)); !path.empty()) paths.push_back(std::move(path));
  return paths;
}

}  // namespace thole
