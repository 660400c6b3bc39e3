#include "host/process/inherited_descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

std::vector<int> inherited_descriptors() {
  std::vector<int> inherited;
  if (std::unique_ptr<DIR, int (*)(DIR*)> listed{::opendir("/proc/self/fd"), ::closedir})
    while (const dirent* entry = ::readdir(listed.get())) {
      auto fd = parse_u64(entry->d_name);
      if (fd && *fd > 2 && (::fcntl(static_cast<int>(*fd), F_GETFD) & FD_CLOEXEC) == 0)
        inherited.push_back(static_cast<int>(*fd));
    }
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
