#include "host/store/file_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/store/schema.hpp"

namespace thole::host {

namespace {

std::string uri(const std::string& path, const char* how) {
  std::string text = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') text += fmt::format("%{:02x}", static_cast<int>(c));
    else text += c;
  }
  return text + how;
}

// How long the log is at least, by its index (WalIndexHdr in SQLite's wal.c: its frames, and of which pages); 0 where nobody
// uses that. Frames are written before the index tells of them, and it forgets them before they go.
off_t size_by_index(const std::string& index) {
  constexpr off_t head_of_log = 32, head_of_frame = 24;
  struct {
    std::uint32_t version, unused, changes;
    std::uint8_t initialised, big_endian;
    std::uint16_t page_size;
    std::uint32_t frames;
  } header{};
  const Fd file = open_at(AT_FDCWD, index.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct flock users = byte_range(F_WRLCK, users_of_index, 1);
  const bool is_used = file && ::fcntl(file.get(), F_OFD_GETLK, &users) == 0 && users.l_type != F_UNLCK;
  if (!is_used || ::pread(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return 0;
  if (header.initialised == 0 || header.frames == 0) return 0;
  const off_t page = header.page_size == 1 ? 65536 : header.page_size;
  return head_of_log + static_cast<off_t>(header.frames) * (head_of_frame + page);
}

}  // namespace

bool has_content(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) == 0) return about.st_size > 0;
  if (says_absent(errno)) return false;
  throw Error(ErrorCode::unavailable, "cannot look at the queue's file").about(path).because(errno).hint(
      "nothing was changed; try again");
}

// An index is given its size only after the log is there.
bool log_is_lost(const std::string& path) {
  struct stat about{};
  if (::stat((path + "-wal").c_str(), &about) == 0) return about.st_size < size_by_index(path + "-shm");
  return says_absent(errno) && has_content(path + "-shm");
}

void check_queue_file(const std::string& directory) {
  const std::string path = directory + "/queue.db";
  if (!has_content(path)) return;
  if (!open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK))
    throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(path).because(errno);
  if (log_is_lost(path) && log_is_lost(path))    // it may have been shortened by whom that is for, just between
    throw Error(ErrorCode::unavailable, std::string(lost_log)).about(path + "-wal")
        .hint("the next command that uses the queue goes on with what is left: thole jobs");
  // The last change may stand in the log alone. That can be read as it is only where its index is.
  const bool with_log = has_content(path + "-wal") && has_content(path + "-shm");
  Database file(uri(path, with_log ? "?readonly_shm=1" : "?immutable=1"), Database::only_looks);
  schema_is_current(file, schema_steps());
}

}  // namespace thole::host
