#include "host/process/file_within.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

FileFound found_in(const Fd& file) {
  if (!file) return {{}, says_absent(errno)};
  return {identity_of_file(file), true};
}

}  // namespace

model::FileIdentity identity_of_file(const Fd& file) {
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return {};
  return {static_cast<std::uint64_t>(about.st_ino), static_cast<std::uint64_t>(about.st_dev)};
}

FileFound file_within(pid_t process, const std::string& path) {
  const std::string root = fmt::format("/proc/{}/root", process);
  const Fd directory = open_at(AT_FDCWD, root.c_str(), O_PATH | O_DIRECTORY);
  if (!directory) return found_in(directory);
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  Fd file(static_cast<int>(::syscall(SYS_openat2, directory.get(), path.c_str(), &how, sizeof how)));
  if (!file && (errno == ENOSYS || errno == EPERM)) file = open_at(AT_FDCWD, (root + path).c_str(), O_PATH);
  return found_in(file);
}

FileFound file_here(const std::string& path) { return found_in(open_at(AT_FDCWD, path.c_str(), O_PATH)); }

}  // namespace thole::host
