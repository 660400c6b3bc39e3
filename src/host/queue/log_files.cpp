#include "host/queue/log_files.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/made.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::uint64_t block = 4096;            // holes are made of whole blocks
constexpr Millis between_size_looks{1000};

// Nothing where it cannot be told: from a size of 0 a hole would be cut into what others have written.
std::optional<std::uint64_t> size_of(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 ? std::optional(static_cast<std::uint64_t>(about.st_size)) : std::nullopt;
}

}  // namespace

void remove_logs(const std::string& directory, model::JobId job) {
  std::error_code ignored;                       // what cannot be removed stays; it is only room
  std::filesystem::remove(fmt::format("{}/{}.log", directory, job), ignored);
  std::filesystem::remove_all(fmt::format("{}/{}", directory, job), ignored);
  const std::string code = fmt::format("{}/{}.code", directory, job);   // see code_copy.hpp
  const std::filesystem::path copy = std::filesystem::read_symlink(code, ignored);
  if (!copy.empty()) std::filesystem::remove_all(copy, ignored);
  std::filesystem::remove(code, ignored);
}

std::optional<Hole> hole_for(std::uint64_t start, std::uint64_t length, std::uint64_t limit) {
  if (limit == 0 || length <= limit) return std::nullopt;
  const std::uint64_t from = (start + limit / 4 + block - 1) / block * block;
  const std::uint64_t to = (start + length - limit / 2) / block * block;
  if (to <= from) return std::nullopt;
  return Hole{from, to - from};
}

bool LogFiles::open(Pack& pack, const port::LogUse& use, std::string& problem) const {
  pack = Pack{};
  pack.name = use.alone ? fmt::format("{}.log", use.job) : fmt::format("{}/{}-{}.log", use.job, use.lane, use.bay);
  pack.path = directory_ + "/" + pack.name;
  const std::string folder = fmt::format("{}/{}", directory_, use.job);
  make_directory(directory_, 0700);              // somebody may have removed it
  const bool has_folder = use.alone || make_directory(folder, 0700) || errno == EEXIST;
  if (has_folder) pack.file = create_at(AT_FDCWD, pack.path.c_str(), O_RDWR | O_APPEND | O_NOFOLLOW, 0600);
  if (!pack.file) problem = fmt::format("{}: {}", pack.path, std::strerror(errno));
  pack.job = use.job;
  return static_cast<bool>(pack.file);
}

LogFiles::Spot LogFiles::next(const port::LogUse& use) {
  Pack& pack = packs_[use.bay];
  Spot spot;
  struct stat about {};
  const bool removed = pack.file && (::fstat(pack.file.get(), &about) != 0 || about.st_nlink == 0);
  if ((!pack.file || pack.job != use.job || removed) && !open(pack, use, spot.problem)) return spot;
  const auto size = size_of(pack.file.get());
  if (!size) {
    spot.problem = fmt::format("{}: {}", pack.path, std::strerror(errno));
    pack.file.reset();
    return spot;
  }
  spot.name = pack.name;
  spot.offset = pack.start = *size;
  return spot;
}

int LogFiles::begin(const port::LogUse& use, std::string_view header) {
  Pack& pack = packs_[use.bay];
  if (!pack.file) return -1;
  static_cast<void>(write_all(pack.file.get(), header));   // a full disk has no room for it
  pack.limit = use.limit_mib.value_or(0) << 20;
  if (pack.limit != 0) watch(pack);
  return pack.file.get();
}

std::optional<std::uint64_t> LogFiles::end(const port::LogUse& use, std::string_view footer) {
  Pack& pack = packs_[use.bay];
  if (!pack.file) return std::nullopt;
  static_cast<void>(write_all(pack.file.get(), footer));
  cut(pack);
  const auto size = size_of(pack.file.get());
  return size ? std::optional(*size - pack.start) : std::nullopt;
}

std::string LogFiles::tail(const port::LogUse& use, std::size_t bytes) {
  const Pack& pack = packs_[use.bay];
  if (!pack.file) return "";
  const std::uint64_t end = size_of(pack.file.get()).value_or(pack.start);
  const std::uint64_t from = std::max(pack.start, end > bytes ? end - bytes : 0);
  std::string text(end - from, '\0');
  const ssize_t n = ::pread(pack.file.get(), text.data(), text.size(), static_cast<off_t>(from));
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

// One notice, and then none until we ask again: a chatty task must not keep its lane awake.
void LogFiles::watch(Pack& pack) {
  if (!growth_) growth_ = Fd(above_standard(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)));
  pack.look_again.reset();
  pack.watch = growth_ ? ::inotify_add_watch(growth_.get(), pack.path.c_str(), IN_MODIFY | IN_ONESHOT) : -1;
}

void LogFiles::cut(Pack& pack) const {
  const auto size = size_of(pack.file.get());
  const auto hole = size ? hole_for(pack.start, *size - pack.start, pack.limit) : std::nullopt;
  if (hole)
    ::fallocate(pack.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(hole->start),
                static_cast<off_t>(hole->length));
}

std::optional<SteadyTime> LogFiles::trim(SteadyTime now) {
  alignas(inotify_event) char events[4096];
  for (ssize_t n; growth_ && (n = ::read(growth_.get(), events, sizeof events)) > 0;)
    for (ssize_t at = 0; at < n;) {
      inotify_event event;
      std::memcpy(&event, events + at, sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
      for (auto& [bay, pack] : packs_)
        if (pack.watch == event.wd && (event.mask & IN_MODIFY)) {
          cut(pack);
          pack.watch = -1;
          pack.look_again = now + between_size_looks;
        }
    }
  std::optional<SteadyTime> next;
  for (auto& [bay, pack] : packs_) {
    if (pack.look_again && *pack.look_again <= now) {
      cut(pack);                                 // what was written since the last look
      watch(pack);
    }
    if (pack.look_again && (!next || *pack.look_again < *next)) next = pack.look_again;
  }
  return next;
}

}  // namespace thole::host
