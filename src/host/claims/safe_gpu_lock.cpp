#include "host/claims/safe_gpu_lock.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "host/claims/alloc_lock.hpp"

namespace thole::host {
namespace {

bool lock_whole(int fd) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

}  // namespace

std::vector<std::string> safe_gpu_lock_files(const std::string& root) {
  const std::string name = "gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users";
  return {root + "/tmp/safe_gpu/" + name, root + "/tmp/" + name};
}

SafeGpuLock::SafeGpuLock(const std::vector<std::string>& files, Millis patience,
                         const std::function<void(const std::string&)>& warn, std::span<const int> cancel) {
  auto end = std::chrono::steady_clock::now() + patience;
  for (const std::string& path : files) {
    // Never made: without the file nobody uses safe-gpu here. NOFOLLOW: /tmp is everybody's.
    Fd file = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (!file && errno == ENOENT) continue;
    if (!file) {
      complete_ = false;
      if (warn) warn("safe-gpu's users may choose at the same moment: " + path + ": " + std::strerror(errno));
      continue;
    }
    bool locked = lock_whole(file.get());
    while (!locked && std::chrono::steady_clock::now() < end) {
      rest(Millis{5}, cancel);
      locked = lock_whole(file.get());
    }
    if (locked) locks_.push_back(std::move(file));
    else if (warn) warn("safe-gpu is choosing for a long time; not waiting for it any more: " + path);
    complete_ = complete_ && locked;
  }
}

}  // namespace thole::host
