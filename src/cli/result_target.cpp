#include "cli/result_target.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/output.hpp"

namespace thole::cli {

namespace {

constexpr int most_links = 40;   // as the kernel's

Error not_written(const std::string& name, int reason) {
  return Error(ErrorCode::unavailable, "cannot write").about(name).because(reason);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) ? real : "";
}

// In /proc a link may lead to what has no name: a pipe, a socket, a file that was deleted.
bool stands_in_proc(const std::string& folder) {
  struct statfs about {};
  return ::statfs(folder.c_str(), &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

// The number where the path names a descriptor of this process. Opened anew it would be written from its beginning, over what
// the command has written there.
int own_descriptor(const std::string& path, const std::string& folder) {
  const std::string real = real_path(folder);
  if (real.empty() || (real != real_path("/proc/self/fd") && real != real_path("/proc/thread-self/fd"))) return -1;
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::atoi(name.c_str());
}

// What the link says. As the kernel has it with fs.protected_symlinks: of one that a neighbour has put into /tmp nothing comes.
std::optional<std::string> link_target(const std::string& path, const std::string& folder) {
  const Fd link = open_at(AT_FDCWD, path.c_str(), O_PATH | O_NOFOLLOW);
  struct stat about {}, around {};
  if (!link || ::fstat(link.get(), &about) != 0 || ::stat(folder.c_str(), &around) != 0) return std::nullopt;
  const bool for_all = (around.st_mode & S_ISVTX) && (around.st_mode & S_IWOTH);
  if (for_all && about.st_uid != ::geteuid() && about.st_uid != around.st_uid) {
    errno = EACCES;
    return std::nullopt;
  }
  char next[PATH_MAX];
  const ssize_t length = ::readlinkat(link.get(), "", next, sizeof next);
  if (length < 0) return std::nullopt;
  return std::string(next, static_cast<std::size_t>(length));
}

// False where the target is known by now.
bool follow(ResultTarget& target) {
  const std::string folder = folder_of(target.path);
  if (stands_in_proc(folder)) {
    target.descriptor = own_descriptor(target.path, folder);
    return false;
  }
  struct stat about {};
  if (::lstat(target.path.c_str(), &about) != 0) {
    if (errno != ENOENT) throw not_written(target.name, errno);
    target.is_file = true;
    return false;
  }
  if (S_ISDIR(about.st_mode)) throw not_written(target.name, EISDIR);
  if (!S_ISLNK(about.st_mode)) {
    target.is_file = S_ISREG(about.st_mode);
    if (about.st_uid == ::geteuid()) target.mode = about.st_mode & 0777;
    return false;
  }
  const std::optional<std::string> next = link_target(target.path, folder);
  if (!next) throw not_written(target.name, errno);
  target.path = next->starts_with('/') ? *next : folder + "/" + *next;
  return true;
}

// Those that we have opened ourselves are no target for a result, whatever number was guessed.
void check_descriptor(const ResultTarget& target) {
  const int flags = ::fcntl(target.descriptor, F_GETFD), access = ::fcntl(target.descriptor, F_GETFL);
  if (flags < 0 || access < 0 || (flags & FD_CLOEXEC) || (access & O_ACCMODE) == O_RDONLY)
    throw not_written(target.name, EBADF);
}

}  // namespace

void refuse_input_as_result(Context& context, std::string_view option, const std::string& name, const std::string& input) {
  struct stat result {}, read {};
  if (::stat(name.c_str(), &result) != 0 || !S_ISREG(result.st_mode)) return;
  for (const std::string& one : {context.wire.machine_file(), input})
    if ((one == "-" ? ::fstat(STDIN_FILENO, &read) : ::stat(one.c_str(), &read)) == 0 && is_one_file(result, read))
      throw Error(ErrorCode::usage, fmt::format("{} would write over what is read: {}", option, printable(name)))
          .hint("name another file");
}

ResultTarget result_target(const std::string& name) {
  ResultTarget target;
  target.name = target.path = name;
  target.mode = left_by_umask(0666);
  if (name == "-") {
    target.descriptor = STDOUT_FILENO;
    return target;
  }
  for (int links = 0; follow(target); ++links)
    if (links == most_links) throw not_written(name, ELOOP);
  return target;
}

void try_result(const ResultTarget& target) {
  if (target.descriptor >= 0) return check_descriptor(target);
  if (!target.is_file) return;
  const std::string beside = target.path + fmt::format(".{}", ::getpid());
  try {
    write_file(beside, "");
  } catch (const Error& error) {   // of a name that nobody has typed
    throw not_written(target.name, error.sys_errno());
  }
  ::unlink(beside.c_str());
}

void write_result(const ResultTarget& target, std::string_view text, int open_flags) {
  if (target.descriptor >= 0) {
    check_descriptor(target);
    if (!put_bytes(target.descriptor, text)) throw not_written(target.name, errno);
    return;
  }
  if (target.is_file) {
    try {
      return write_file(target.path, text, target.mode);
    } catch (const Error& error) {
      throw not_written(target.name, error.sys_errno());
    }
  }
  const Fd file = open_at(AT_FDCWD, target.path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | open_flags);
  if (!file || !write_all(file.get(), text)) throw not_written(target.name, errno);
}

}  // namespace thole::cli
