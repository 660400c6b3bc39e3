#include "host/claims/safe_gpu_lock.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/byte_range.hpp"
#include "host/claims/alloc_lock.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {
namespace {

constexpr Millis keeper_named_after{1500};

// Who keeps it, as safe-gpu does; nobody's number is known of an open file's lock, which is what we take.
pid_t keeper(int fd) {
  struct flock range = byte_range(F_WRLCK, 0, 0);
  return ::fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK ? range.l_pid : 0;
}

// "pid 1234 (python3) of anna keeps safe-gpu's lock: PATH"
std::string kept_by(pid_t pid, const std::string& path) {
  return (pid > 0 ? describe_process(pid) : "somebody") + " keeps safe-gpu's lock: " + path;
}

bool lock_whole(int fd) {
  struct flock range = byte_range(F_WRLCK, 0, 0);
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

}  // namespace

std::vector<std::string> safe_gpu_lock_files(const std::string& root) {
  const std::string name = "gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users";
  return {root + "/tmp/safe_gpu/" + name, root + "/tmp/" + name};
}

std::string safe_gpu_is_kept(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const Fd file = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (const pid_t pid = file ? keeper(file.get()) : 0; pid > 0) return kept_by(pid, path);
  }
  return "";
}

Millis SafeGpuPatience::left(SteadyTime now) {
  left_ = std::min(all, std::max(Millis{0}, left_) + std::chrono::duration_cast<Millis>(now - asked_) / regained_in);
  asked_ = now;
  return left_;
}

SafeGpuLock::SafeGpuLock(const std::vector<std::string>& files, Millis patience,
                         const std::function<void(const std::string&)>& warn, std::span<const int> cancel) {
  const auto begin = std::chrono::steady_clock::now(), end = begin + patience;
  for (const std::string& path : files) {
    // Never made: without the file nobody uses safe-gpu here. NOFOLLOW: /tmp is everybody's.
    Fd file = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (!file && errno == ENOENT) continue;
    if (!file) {
      complete_ = false;
      if (warn) warn("safe-gpu's users may choose at the same moment: " + path + ": " + std::strerror(errno));
      continue;
    }
    bool locked = lock_whole(file.get()), named = false;
    for (auto now = std::chrono::steady_clock::now(); !locked && now < end; now = std::chrono::steady_clock::now()) {
      if (warn && !named && now > begin + keeper_named_after) named = true, warn(kept_by(keeper(file.get()), path));
      rest(Millis{5}, cancel);
      locked = lock_whole(file.get());
    }
    if (locked) locks_.push_back(std::move(file));
    else if (warn && !named) warn(kept_by(keeper(file.get()), path));
    complete_ = complete_ && locked;
    kept_ = kept_ || !locked;
  }
}

}  // namespace thole::host
