#include "host/process/inherited_descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

std::vector<int> open_descriptors() {
  std::vector<int> open;
  if (std::unique_ptr<DIR, int (*)(DIR*)> listed{::opendir("/proc/self/fd"), ::closedir})
    while (const dirent* entry = ::readdir(listed.get())) {
      const auto fd = parse_u64(entry->d_name);
      if (fd && *fd > 2 && static_cast<int>(*fd) != ::dirfd(listed.get())) open.push_back(static_cast<int>(*fd));
    }
  return open;
}

std::vector<int> inherited_descriptors() {
  std::vector<int> inherited = open_descriptors();
  std::erase_if(inherited, [](int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; });
  return inherited;
}

void leave_caller() {
  Fd null = open_at(AT_FDCWD, "/dev/null", O_RDWR);
  for (int standard = 0; standard <= 2; ++standard)
    if (!null || ::dup2(null.get(), standard) < 0) ::close(standard);
  for (int fd : inherited_descriptors()) ::close(fd);
  if (::chdir("/") != 0) return;  // only a courtesy: the old directory stays busy
}

}  // namespace thole::host
