#include "host/process/inherited_descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <memory>

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

}  // namespace thole::host
