#include "host/claims/safe_gpu_lock.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/byte_range.hpp"
#include "host/claims/alloc_lock.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {
namespace {

constexpr Millis keeper_named_after{1500};

// Who keeps it, as safe-gpu does; nobody's number (not above 0) is known of an open file's lock, which is what we take, and of
// who is in another pid namespace.
std::optional<pid_t> keeper(int fd) {
  struct flock range = byte_range(F_WRLCK, 0, 0);
  const bool kept = ::fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  return kept ? std::optional(range.l_pid) : std::nullopt;
}

// "pid 1234 (python3) of anna keeps safe-gpu's lock: PATH"
std::string kept_by(pid_t pid, const std::string& path) {
  return (pid > 0 ? describe_process(pid) : "somebody") + " keeps safe-gpu's lock: " + path;
}

bool lock_whole(int fd) {
  struct flock range = byte_range(F_WRLCK, 0, 0);
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

struct Keeper {
  pid_t pid = 0;
  std::string path;
};
std::optional<Keeper> keeper_of_any(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const Fd file = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (const auto pid = file ? keeper(file.get()) : std::nullopt) return Keeper{*pid, path};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> safe_gpu_lock_files(const std::string& root) {
  const std::string name = "gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users";
  return {root + "/tmp/safe_gpu/" + name, root + "/tmp/" + name};
}

std::string safe_gpu_is_kept(const std::vector<std::string>& files) {
  const auto kept = keeper_of_any(files);
  return kept && kept->pid > 0 ? kept_by(kept->pid, kept->path) : "";
}

Millis SafeGpuPatience::left(SteadyTime now) {
  left_ = std::min(all, std::max(Millis{0}, left_) + std::chrono::duration_cast<Millis>(now - asked_) / regained_in);
  asked_ = now;
  return left_;
}

void wait_for_safe_gpu(const std::vector<std::string>& files, Millis patience,
                       const std::function<void(const std::string&)>& warn, std::span<const int> cancel) {
  const auto begin = std::chrono::steady_clock::now();
  bool named = false;
  for (;;) {
    const auto kept = keeper_of_any(files);
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (!kept || waited >= patience) return;
    if (warn && waited > keeper_named_after && !std::exchange(named, true)) warn(kept_by(kept->pid, kept->path));
    rest(Millis{5}, cancel);
  }
}

SafeGpuLock::SafeGpuLock(const std::vector<std::string>& files, const std::function<void(const std::string&)>& warn) {
  for (const std::string& path : files) {
    // Never made: without the file nobody uses safe-gpu here. NOFOLLOW: /tmp is everybody's.
    Fd file = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (!file && errno == ENOENT) continue;
    if (!file) {
      complete_ = false;
      if (warn) warn("safe-gpu's users may choose at the same moment: " + path + ": " + std::strerror(errno));
      continue;
    }
    const bool locked = lock_whole(file.get());
    if (locked) locks_.push_back(std::move(file));
    complete_ = complete_ && locked;
    kept_ = kept_ || !locked;
  }
}

}  // namespace thole::host
