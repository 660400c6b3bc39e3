#include "host/queue/queue_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/poke.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "base/want.hpp"

namespace thole::host {
namespace {

// Nobody reads it, or what lies in its place is no FIFO.
bool says_unread(int sys_errno) {
  return sys_errno == ENXIO || sys_errno == ELOOP || sys_errno == EISDIR || says_absent(sys_errno);
}

std::string move_away(const std::string& path) { return fmt::format("move it away: mv {0} {0}.away", shell_quote(path)); }

std::string fix_of(const std::string& path, int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT: return "make room on that disk";
    case EACCES:
    case EPERM: return "give its owner access: chmod u+rwX " + shell_quote(path);
    case EISDIR:
    case ENOTDIR:
    case ELOOP: return move_away(path);
    default: return is_want(reason) ? mend_of_want(reason) : "thole doctor";
  }
}

Error unusable(const char* what, const std::string& path, int reason) {
  return Error(ErrorCode::unavailable, what).about(path).because(reason).hint(fix_of(path, reason));
}

void unmap_record(const model::LaneRecord* record) {
  if (record) ::munmap(const_cast<model::LaneRecord*>(record), sizeof *record);
}

// Of an earlier build, on a disk that has no room for the rest: what there is of the file, and behind it nothing.
void* map_what_there_is(const Fd& file, off_t length) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t reached = (static_cast<std::size_t>(length) + page - 1) / page * page;
  void* memory = ::mmap(nullptr, sizeof(model::LaneRecord), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return memory;
  if (::mmap(memory, reached, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0) != MAP_FAILED) return memory;
  const int reason = errno;
  ::munmap(memory, sizeof(model::LaneRecord));
  errno = reason;
  return MAP_FAILED;
}

}  // namespace

void QueueFiles::cannot(const char* what, const std::string& name) const {
  const int reason = errno;
  throw unusable(what, directory_ + "/" + name, reason);
}

bool QueueFiles::is_fifo(const Fd& file, const std::string& name) const {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) cannot("cannot look at the FIFO", name);
  return S_ISFIFO(about.st_mode);
}

std::vector<Error> QueueFiles::troubles() const {
  std::vector<Error> found;
  const auto look = [&](const std::string& name, mode_t kind) {
    const std::string path = directory_ + "/" + name;
    struct stat about {};
    const char* expected = kind == S_IFIFO ? "no FIFO" : kind == S_IFDIR ? "no directory" : "no file";
    const bool absent = (kind == S_IFDIR ? ::stat(path.c_str(), &about) : ::lstat(path.c_str(), &about)) != 0;
    if (absent) {
      if (!says_absent(errno)) found.push_back(unusable("cannot be looked at", path, errno));
    } else if ((about.st_mode & S_IFMT) != kind) {
      found.push_back(Error(ErrorCode::unavailable, std::string("this is ") + expected).about(path).hint(move_away(path)));
    } else if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK | (kind == S_IFDIR ? X_OK : 0), AT_EACCESS) != 0) {
      found.push_back(unusable("cannot be read and written", path, errno));
    }
  };
  look("runner", S_IFREG);
  look("start", S_IFREG);
  look("wake", S_IFIFO);
  look("logs", S_IFDIR);
  const std::size_t before = found.size();
  look("lanes", S_IFDIR);
  if (found.size() > before) return found;
  for (const unsigned lane : lanes()) {
    look(lane_name(lane), S_IFREG);
    look(lane_name(lane) + ".life", S_IFIFO);
    look(lane_name(lane) + ".mail", S_IFIFO);
  }
  return found;
}

void QueueFiles::make() const {
  for (const char* name : {"lanes", "logs"})
    if (!make_directory(directory_ + "/" + name, 0700) && errno != EEXIST) cannot("cannot make the directory", name);
}

Fd QueueFiles::open_start() const {
  Fd file = create_at(AT_FDCWD, (directory_ + "/start").c_str(), O_RDWR | O_NOFOLLOW, 0600);
  if (!file) cannot("cannot open the lock of who starts a runner", "start");
  return file;
}

Fd QueueFiles::open_fifo(const std::string& name) const {
  const std::string path = directory_ + "/" + name;
  bool made = make_fifo_at(AT_FDCWD, path.c_str(), 0600);
  if (!made && errno == ENOENT) {            // somebody has removed its directory
    make();
    made = make_fifo_at(AT_FDCWD, path.c_str(), 0600);
  }
  if (!made && errno != EEXIST) cannot("cannot make the FIFO", name);
  Fd fifo = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW);
  if (!fifo) cannot("cannot open the FIFO", name);
  if (!is_fifo(fifo, name))
    throw Error(ErrorCode::unavailable, "this is no FIFO").about(path).hint("remove it: rm " + shell_quote(path));
  return fifo;
}

// One end of a FIFO that is there. Whatever else lies under its name would look like a living reader, and be ready for ever.
Fd QueueFiles::open_end(const std::string& name, int way) const {
  Fd file = open_at(AT_FDCWD, (directory_ + "/" + name).c_str(), way | O_NONBLOCK | O_NOFOLLOW);
  if (!file && !says_unread(errno)) cannot("cannot open the FIFO", name);
  return file && is_fifo(file, name) ? std::move(file) : Fd();
}

bool QueueFiles::tell(const std::string& name, char what) const {
  const Fd fifo = open_end(name, O_WRONLY);
  if (!fifo) return false;
  const bool heard = poke(fifo.get(), what);
  if (!heard && errno != EPIPE) cannot("cannot write to the FIFO", name);
  return heard;
}

std::vector<unsigned> QueueFiles::lanes() const {
  std::vector<unsigned> numbers;
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir((directory_ + "/lanes").c_str()), ::closedir);
  errno = listing ? 0 : errno;
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    if (const auto number = parse_u64(entry->d_name)) numbers.push_back(static_cast<unsigned>(*number));
    errno = 0;
  }
  if (errno != 0 && !says_absent(errno)) cannot("cannot read the directory", "lanes");
  std::ranges::sort(numbers);
  return numbers;
}

// Without an inotify instance to be had, whoever looks again now and then must do.
Fd QueueFiles::watch_removals() const {
  Fd watch(above_standard(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)));
  constexpr std::uint32_t removals = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (watch && ::inotify_add_watch(watch.get(), directory_.c_str(), removals) < 0) watch.reset();
  return watch;
}

bool QueueFiles::stands(const port::LaneSeat& seat) const {
  const std::string path = path_of(seat.number);
  return is_at(path + ".life", seat.life.get()) && is_at(path + ".mail", seat.mail.get()) &&
         is_at(path, seat.record.file().get());
}

// What is made gets its room at once: most file systems have it then for whatever is written there later.
port::SeenRecord QueueFiles::see_record(unsigned lane, bool make) const {
  const std::string name = lane_name(lane);
  const std::string path = directory_ + "/" + name;
  Fd file = make ? create_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW, 0600)
                 : open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW);
  if (!file && !make && errno == EROFS) file = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW);
  if (!file && make) cannot("cannot make a lane's record", name);
  if (!file && !says_absent(errno) && errno != ELOOP) cannot("cannot open a lane's record", name);
  if (!file) return {};
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) cannot("cannot look at a lane's record", name);
  const off_t length = about.st_size;
  const bool whole = length >= static_cast<off_t>(sizeof(model::LaneRecord));
  if (!make && length < static_cast<off_t>(offsetof(model::LaneRecord, commands))) return {};
  if (make && length == 0) write_in_place(file);
  const bool has_room = (!make && whole) || (errno = ::posix_fallocate(file.get(), 0, sizeof(model::LaneRecord))) == 0;
  if (!has_room && make) cannot("cannot make a lane's record", name);
  void* memory = has_room ? ::mmap(nullptr, sizeof(model::LaneRecord), PROT_READ, MAP_SHARED, file.get(), 0)
                          : map_what_there_is(file, length);
  if (memory == MAP_FAILED) cannot("cannot map a lane's record", name);
  port::SeenRecord::Memory seen(static_cast<const model::LaneRecord*>(memory), unmap_record);
  return port::SeenRecord(std::move(seen), std::move(file));
}

}  // namespace thole::host
