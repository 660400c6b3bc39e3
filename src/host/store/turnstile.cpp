#include "host/store/turnstile.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/open_directory.hpp"
#include "base/time.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {

namespace {

constexpr Seconds named_after{2};

// Does something after a while unless it is gone by then. A thread of its own: whoever waits for a lock in the kernel's order
// is asleep there. Where no thread is to be had it is not done.
class Later {
 public:
  explicit Later(std::function<void()> what) {
    try {
      thread_ = std::thread([this, what = std::move(what)] {
        std::unique_lock lock(mutex_);
        if (!gone_.wait_for(lock, named_after, [this] { return over_; })) what();
      });
    } catch (const std::system_error&) {
    }
  }
  ~Later() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    gone_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable gone_;
  bool over_ = false;
  std::thread thread_;
};

[[noreturn]] void no_turnstile(const std::string& path, int why) {
  const bool full = why == ENOSPC || why == EDQUOT;
  throw Error(ErrorCode::unavailable, "cannot open the queue's lock")
      .about(shown_path(path))
      .because(why)
      .hint(full           ? "make room on that disk (df -i)"
            : why == EROFS ? "its disk can only be read: dmesg may say why; nothing was changed"
                           : "it must be writable; another place: --queue-dir, THOLE_QUEUE_DIR");
}

}  // namespace

Turnstile::Turnstile(const std::string& path, Said said) : path_(path), said_(std::move(said)) {
  file_ = create_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW, 0600);
  if (!file_ && errno != EROFS) no_turnstile(path, errno);   // what is only looked at is there all the same
}

Turnstile::Pass Turnstile::pass() {
  if (!file_) no_turnstile(path_, EROFS);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) wait();
  return Pass(file_.get());
}

void Turnstile::wait() {
  std::optional<Later> naming;
  if (said_)
    naming.emplace([this] {
      said_("waiting for the queue: " + describe_keeper(file_.get()) + ": " + shown_path(path_) +
            "\n  continue or end that process (kill -CONT, kill)");
    });
  while (::flock(file_.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw Error(ErrorCode::unavailable, "cannot lock the queue").about(shown_path(path_)).because(errno);
}

Turnstile::Pass::~Pass() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
}

std::optional<std::string> turnstile_kept(const std::string& directory, Millis patience) {
  constexpr Millis between_looks{20};
  const Fd file = open_at(AT_FDCWD, (directory + "/turnstile").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file) return std::nullopt;
  const SteadyTime until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return std::nullopt;   // given back with the file
    if (std::chrono::steady_clock::now() >= until) return describe_keeper(file.get());
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace thole::host
