#include "host/queue/log_text.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/same_file.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr std::size_t read_at_once = 65536;

off_t at(std::uint64_t position) { return static_cast<off_t>(position); }

}  // namespace

LogText::LogText(std::string path, std::uint64_t start, std::optional<std::uint64_t> length)
    : path_(std::move(path)), file_(open_at(AT_FDCWD, path_.c_str(), O_RDONLY)), start_(start), at_(start) {
  if (!file_) cannot_read();
  if (length) ends_after(*length);
}

void LogText::cannot_read() const {
  const int why = errno;
  throw Error(ErrorCode::unavailable, "cannot read the log").about(path_).because(why);
}

std::uint64_t LogText::present_end() const {
  struct stat about {};
  if (::fstat(file_.get(), &about) != 0) cannot_read();
  const auto size = static_cast<std::uint64_t>(about.st_size);
  return end_ ? std::min(*end_, size) : size;
}

bool LogText::is_in(const std::string& path) const { return path == path_ && is_at(path_, file_.get()); }

std::string LogText::next() {
  const std::uint64_t end = present_end();
  if (at_ >= end) return "";
  const off_t data = ::lseek(file_.get(), at(at_), SEEK_DATA);
  const std::uint64_t from = data < 0 ? (errno == ENXIO ? end : at_) : std::min(static_cast<std::uint64_t>(data), end);
  if (from > at_) {                              // the hole of the size cap
    const std::uint64_t left_out = from - at_;
    at_ = from;
    return fmt::format("\n[… {} left out: the log's limit …]\n",
                       left_out < 1024 * 1024 ? fmt::format("{} bytes", left_out) : format_mib(left_out >> 20));
  }
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(read_at_once, end - at_)), '\0');
  const off_t hole = ::lseek(file_.get(), at(at_), SEEK_HOLE);
  if (hole > at(at_)) text.resize(std::min(text.size(), static_cast<std::size_t>(hole - at(at_))));
  ssize_t got = 0;
  do got = ::pread(file_.get(), text.data(), text.size(), at(at_));
  while (got < 0 && errno == EINTR);
  if (got < 0) cannot_read();
  text.resize(static_cast<std::size_t>(got));
  at_ += text.size();
  return text;
}

void LogText::skip_to_last(std::uint64_t lines) {
  const std::uint64_t end = present_end();
  std::uint64_t from = end, found = 0;
  std::string text(read_at_once, '\0');
  at_ = lines == 0 ? end : start_;
  while (lines > 0 && from > start_) {
    const std::uint64_t begin = from - std::min<std::uint64_t>(read_at_once, from - start_);
    const ssize_t got = ::pread(file_.get(), text.data(), static_cast<std::size_t>(from - begin), at(begin));
    if (got < 0) cannot_read();
    if (got == 0) return;
    for (std::size_t i = static_cast<std::size_t>(got); i-- > 0;) {
      // The last byte ends the last line; it begins none.
      if (text[i] != '\n' || begin + i + 1 == end || ++found < lines) continue;
      at_ = begin + i + 1;
      return;
    }
    from = begin;
  }
}

int LogText::growth() {
  if (!growth_) {
    growth_ = Fd(above_standard(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)));
    if (!growth_ || ::inotify_add_watch(growth_.get(), path_.c_str(), IN_MODIFY) < 0)
      throw Error(ErrorCode::unavailable, "cannot watch the log")
          .about(path_)
          .because(errno)
          .hint("sysctl fs.inotify.max_user_instances");
  }
  return growth_.get();
}

void LogText::empty_growth() {
  char events[4096];
  while (::read(growth_.get(), events, sizeof events) > 0) {
  }
}

}  // namespace thole::host
