#include "host/store/watch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/poke.hpp"
#include "base/random.hpp"
#include "base/same_file.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr std::string_view newborn = "new.";

const char* prefix_of(port::Changes what) { return what == port::Changes::any ? "any" : "end"; }

[[noreturn]] void cannot_watch(const std::string& path, int why) {
  throw Error(ErrorCode::unavailable, "cannot watch the queue")
      .about(path)
      .because(why)
      .hint(why == ENOSPC || why == EDQUOT ? "make room on that disk (df -i)" : "thole doctor");
}

class FifoWatch : public port::JobWatch {
 public:
  FifoWatch(std::string path, Fd fifo) : path_(std::move(path)), fifo_(std::move(fifo)) {}
  ~FifoWatch() override { ::unlink(path_.c_str()); }
  FifoWatch(const FifoWatch&) = delete;
  FifoWatch& operator=(const FifoWatch&) = delete;

  int fd() const override { return fifo_.get(); }
  void drain() override { thole::drain(fifo_.get()); }
  bool stands() const override { return is_at(path_, fifo_.get()); }

 private:
  std::string path_;
  Fd fifo_;
};

}  // namespace

std::unique_ptr<port::JobWatch> make_watch(const std::string& directory, port::Changes what) {
  if (!make_directory(directory, 0700) && errno != EEXIST) cannot_watch(directory, errno);
  const std::string name = fmt::format("{}.{:016x}", ::getpid(), random_bits());
  const std::string born = fmt::format("{}/{}{}", directory, newborn, name);
  const std::string path = fmt::format("{}/{}.{}", directory, prefix_of(what), name);
  for (;;) {                                     // again only where a writer came in between
    if (!make_fifo_at(AT_FDCWD, born.c_str(), 0600) && errno != EEXIST) cannot_watch(path, errno);
    // Open for both, so that it never hangs up: a writer closing is no change.
    Fd fifo = open_at(AT_FDCWD, born.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW);
    if (fifo && ::rename(born.c_str(), path.c_str()) == 0) return std::make_unique<FifoWatch>(path, std::move(fifo));
    if (errno == ENOENT) continue;
    const int why = errno;
    ::unlink(born.c_str());
    cannot_watch(path, why);
  }
}

Watchers::~Watchers() {
  if (open_) ::closedir(static_cast<DIR*>(open_));
}

void Watchers::tell(bool some_job_ended) {
  if (open_ && !is_at(directory_, ::dirfd(static_cast<DIR*>(open_)))) {   // somebody has removed it
    ::closedir(static_cast<DIR*>(open_));
    open_ = nullptr;
  }
  if (!open_) open_ = ::opendir(directory_.c_str());
  if (!open_) return;                            // nobody has ever watched
  DIR* directory = static_cast<DIR*>(open_);
  ::rewinddir(directory);
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    const bool wants = name.starts_with("any.") || (some_job_ended && name.starts_with("end.")) || name.starts_with(newborn);
    if (!wants) continue;
    Fd fifo = open_at(::dirfd(directory), entry->d_name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fifo) {
      poke(fifo.get());
    } else if (errno == ENXIO) {
      ::unlinkat(::dirfd(directory), entry->d_name, 0);
    }
  }
}

}  // namespace thole::host
