#include "base/made.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "base/random.hpp"
#include "base/text.hpp"

namespace thole {

namespace {

// Beside it, and known by nobody.
std::string name_before(const char* name) {
  const std::string path = name;
  return fmt::format("{}.thole-{:016x}", path.substr(0, path.rfind('/') + 1), random_bits());
}

// `make` is given the name to make.
template <class Make>
bool make_whole(int dir_fd, const char* name, mode_t mode, bool is_directory, const Make& make) {
  if (umask_takes_owners_bits()) {
    struct stat there;
    if (::fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
      errno = EEXIST;
      return false;
    }
    const std::string before = name_before(name);
    if (!make(before.c_str())) return false;
    if (give_owners_bits(dir_fd, before.c_str(), mode) &&
        ::renameat2(dir_fd, before.c_str(), dir_fd, name, RENAME_NOREPLACE) == 0)
      return true;
    const int why = errno;
    ::unlinkat(dir_fd, before.c_str(), is_directory ? AT_REMOVEDIR : 0);
    errno = why;
    if (why != EINVAL && why != ENOSYS) return false;   // not what this file system can do
  }
  return make(name) && give_owners_bits(dir_fd, name, mode);
}

// Without its line in /proc/self/status (Linux 4.6 and before): the usual one.
mode_t umask_at_first() {
  static const mode_t found = [] {
    const std::string status = read_file("/proc/self/status", 4096).value_or("");
    unsigned mask = 022;
    if (const std::size_t line = status.find("\nUmask:"); line != status.npos)
      std::sscanf(status.c_str() + line, "\nUmask: %o", &mask);
    return static_cast<mode_t>(mask);
  }();
  return found;
}

}  // namespace

void write_in_place(const Fd& file) {
  int flags = 0;
  if (::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_NOCOW_FL;
  (void)::ioctl(file.get(), FS_IOC_SETFLAGS, &flags);
}

bool umask_takes_owners_bits() { return (umask_at_first() & S_IRWXU) != 0; }

mode_t left_by_umask(mode_t mode) { return mode & (~umask_at_first() | S_IRWXU); }

// By what was opened: a name may lead elsewhere a moment later. What is gone again, or somebody else's by now (in /tmp), is
// seen by whoever opens it.
bool give_owners_bits(int dir_fd, const char* name, mode_t mode) {
  struct stat found;
  const auto is_whole = [&] { return found.st_uid != ::geteuid() || (~found.st_mode & mode & S_IRWXU) == 0; };
  if (::fstatat(dir_fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  if (is_whole()) return true;
  const Fd made = open_at(dir_fd, name, O_PATH | O_NOFOLLOW);
  if (!made) return errno == ENOENT;
  if (::fstat(made.get(), &found) != 0) return false;
  const mode_t whole = (found.st_mode & 07777) | (mode & S_IRWXU);
  return is_whole() || ::chmod(fmt::format("/proc/self/fd/{}", made.get()).c_str(), whole) == 0;   // fchmod takes no O_PATH
}

bool make_directory_at(int dir_fd, const char* name, mode_t mode) {
  return make_whole(dir_fd, name, mode, true, [&](const char* now) { return ::mkdirat(dir_fd, now, mode) == 0; });
}

bool make_fifo_at(int dir_fd, const char* name, mode_t mode) {
  return make_whole(dir_fd, name, mode, false, [&](const char* now) { return ::mkfifoat(dir_fd, now, mode) == 0; });
}

bool make_directory(const std::string& path, mode_t mode) { return make_directory_at(AT_FDCWD, path.c_str(), mode); }

bool make_directories(const std::string& path, mode_t mode) {
  if (make_directory(path, mode)) return true;
  const std::size_t slash = path.rfind('/');
  if (errno == ENOENT && slash != std::string::npos && slash != 0)
    if (make_directories(path.substr(0, slash), mode) && make_directory(path, mode)) return true;
  struct stat found;
  return errno == EEXIST && ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

Fd create_as_named(int dir_fd, const char* name, int flags) {
  return open_at(dir_fd, name, flags | O_CREAT | O_EXCL, 0666);
}

Fd create_at(int dir_fd, const char* name, int flags, mode_t mode) {
  Fd file;
  const auto create = [&](int how) {
    return make_whole(dir_fd, name, mode, false, [&](const char* now) {
      file = open_at(dir_fd, now, flags | how, mode);
      return static_cast<bool>(file);
    });
  };
  if (!umask_takes_owners_bits()) {
    static_cast<void>(create(O_CREAT));
    return file;
  }
  for (;;) {   // again where it was removed in between
    if ((flags & O_EXCL) == 0) {
      file = open_at(dir_fd, name, flags);
      if (file || errno != ENOENT) return file;
    }
    if (create(O_CREAT | O_EXCL)) return file;
    file.reset();
    if (errno != EEXIST || (flags & O_EXCL) != 0) return file;
  }
}

}  // namespace thole
