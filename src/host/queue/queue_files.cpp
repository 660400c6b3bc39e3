#include "host/queue/queue_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/poke.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

void unmap_record(model::LaneRecord* record) {
  if (record) ::munmap(record, sizeof *record);
}

}  // namespace

void QueueFiles::cannot(const char* what, const std::string& name) const {
  const int reason = errno;
  throw Error(ErrorCode::unavailable, what)
      .about(directory_ + "/" + name)
      .because(reason)
      .hint(reason == ENOSPC || reason == EDQUOT ? "make room on that disk" : "thole doctor");
}

void QueueFiles::make() const {
  for (const char* name : {"lanes", "logs"})
    if (::mkdir((directory_ + "/" + name).c_str(), 0700) != 0 && errno != EEXIST) cannot("cannot make the directory", name);
}

Fd QueueFiles::open_runner() const {
  Fd file = open_at(AT_FDCWD, (directory_ + "/runner").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file) cannot("cannot open the runner's lock", "runner");
  return file;
}

Fd QueueFiles::open_fifo(const std::string& name) const {
  const std::string path = directory_ + "/" + name;
  if (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) cannot("cannot make the FIFO", name);
  Fd fifo = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW);
  if (!fifo) cannot("cannot open the FIFO", name);
  return fifo;
}

// Empty when nobody reads.
Fd QueueFiles::open_to_tell(const std::string& name) const {
  return open_at(AT_FDCWD, (directory_ + "/" + name).c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW);
}

bool QueueFiles::tell(const std::string& name) const {
  Fd fifo = open_to_tell(name);
  return fifo && poke(fifo.get());
}

Fd QueueFiles::watch_life(unsigned lane) const {
  return open_at(AT_FDCWD, (directory_ + "/" + lane_name(lane) + ".life").c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
}

std::vector<unsigned> QueueFiles::lanes() const {
  std::vector<unsigned> numbers;
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir((directory_ + "/lanes").c_str()), ::closedir);
  while (listing) {
    const dirent* entry = ::readdir(listing.get());
    if (!entry) break;
    if (const auto number = parse_u64(entry->d_name)) numbers.push_back(static_cast<unsigned>(*number));
  }
  std::ranges::sort(numbers);
  return numbers;
}

port::MappedRecord QueueFiles::map_record(unsigned lane, bool make) const {
  port::MappedRecord record(nullptr, unmap_record);
  const std::string name = lane_name(lane);
  Fd file = open_at(AT_FDCWD, (directory_ + "/" + name).c_str(), O_RDWR | O_NOFOLLOW | (make ? O_CREAT : 0), 0600);
  if (!file && make) cannot("cannot make a lane's record", name);
  if (!file) return record;
  struct stat about {};
  const bool whole = ::fstat(file.get(), &about) == 0 && about.st_size >= static_cast<off_t>(sizeof(model::LaneRecord));
  if (!whole && !make) return record;
  // Its room is on the disk before it is mapped: a full one would end us by SIGBUS later.
  if (make && (errno = ::posix_fallocate(file.get(), 0, sizeof(model::LaneRecord))) != 0)
    cannot("cannot make a lane's record", name);
  void* memory = ::mmap(nullptr, sizeof(model::LaneRecord), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) cannot("cannot map a lane's record", name);
  record.reset(static_cast<model::LaneRecord*>(memory));
  return record;
}

}  // namespace thole::host
