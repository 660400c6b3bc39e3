#include "host/store/file_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/hash.hpp"
#include "base/open_directory.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/kernel_locks.hpp"
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

// What the index says of the log (WalIndexHdr, its copy, and the beginning of WalCkptInfo in SQLite's wal.c).
struct IndexHead {
  std::uint32_t version, unused, changes;
  std::uint8_t initialised, big_endian;
  std::uint16_t page_size;
  std::uint32_t frames, pages, checksum_of_frames[2];
  unsigned char salt[8];
  std::uint32_t checksum[2], again[12], frames_brought_home;
};

// Unset where it tells of nothing, or nobody uses it: then it may be of any time, and the file and its log put back from a
// backup.
std::optional<IndexHead> head_in_use(int index) {
  IndexHead head{};
  struct flock users = byte_range(F_WRLCK, users_of_index, 1);
  const bool is_used = ::fcntl(index, F_OFD_GETLK, &users) == 0 && users.l_type != F_UNLCK;
  if (!is_used || ::pread(index, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) return std::nullopt;
  return head.initialised != 0 && head.frames > 0 ? std::optional(head) : std::nullopt;
}

// How long a log with so many frames is at least. They are written before the index tells of them, and it forgets them before
// they go.
off_t size_of(std::uint32_t frames, const IndexHead& head) {
  constexpr off_t head_of_log = 32, head_of_frame = 24;
  const off_t page = head.page_size == 1 ? 65536 : head.page_size;
  return head_of_log + static_cast<off_t>(frames) * (head_of_frame + page);
}

// Where a part of the index tells the page of each of so many frames, and then finds them by their pages (WALINDEX_PGSZ,
// HASHTABLE_NPAGE, walHash, walIndexAppend in wal.c).
struct IndexPart {
  static constexpr std::size_t size = 32768, slots = 8192, frames = 4096;
  static constexpr std::size_t begin_of_first = 136, frames_of_first = frames - begin_of_first / 4;   // behind the head
  std::array<unsigned char, size> bytes;

  bool finds(std::size_t frame, std::size_t begin) const {   // both from 1 on, within this part
    std::uint32_t page = 0;
    std::memcpy(&page, bytes.data() + begin + 4 * (frame - 1), sizeof page);
    for (std::size_t key = page * 383 % slots, tries = 0; page != 0 && tries < slots; key = (key + 1) % slots, ++tries) {
      std::uint16_t found = 0;
      std::memcpy(&found, bytes.data() + size / 2 + 2 * key, sizeof found);
      if (found == frame) return true;
      if (found == 0) break;
    }
    return false;
  }
};

bool does_not_find_all(int index, const IndexHead& head) {
  IndexPart part;
  std::size_t left = head.frames;
  for (off_t at = 0; left > 0; at += static_cast<off_t>(IndexPart::size)) {
    if (::pread(index, part.bytes.data(), IndexPart::size, at) != static_cast<ssize_t>(IndexPart::size)) return true;
    const std::size_t here = std::min(left, at == 0 ? IndexPart::frames_of_first : IndexPart::frames);
    for (std::size_t frame = 1; frame <= here; ++frame)
      if (!part.finds(frame, at == 0 ? IndexPart::begin_of_first : 0)) return true;
    left -= here;
  }
  return false;
}

// It is written from its beginning on, so it never has a hole. It begins with one of two numbers (WAL_MAGIC in wal.c).
bool has_hole_before(int log, off_t end) {
  constexpr std::array<unsigned char, 3> magic{0x37, 0x7f, 0x06};
  std::array<unsigned char, 3> begin{};
  if (::pread(log, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) && begin != magic) return true;
  const off_t hole = ::lseek(log, 0, SEEK_HOLE);
  return hole >= 0 && hole < end;
}

bool is_shorter(int log, off_t size) {
  struct stat about{};
  return ::fstat(log, &about) == 0 && about.st_size < size;
}

// What is left of it would undo a part of what the file has by now.
bool is_cut_short_of_home(int log, const IndexHead& head) {
  return !is_shorter(log, size_of(1, head)) && is_shorter(log, size_of(head.frames_brought_home, head));
}

bool is_of_another_index(int log, const IndexHead& head) {
  constexpr off_t salt_of_log = 16;
  unsigned char salt[sizeof head.salt];
  return ::pread(log, salt, sizeof salt, salt_of_log) == static_cast<ssize_t>(sizeof salt) &&
         std::memcmp(salt, head.salt, sizeof salt) != 0;
}

// The same byte for the same file in all processes; another one's is met by chance only.
struct flock byte_of(std::uint64_t file) { return byte_range(F_RDLCK, static_cast<off_t>(file >> 2), 1); }

bool somebody_has_log(const std::string& path) {
  const std::uint64_t file = file_identity(path);
  const Fd directory = open_at(AT_FDCWD, path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY);
  struct flock other = byte_of(file);
  other.l_type = F_WRLCK;
  return file != 0 && directory && ::fcntl(directory.get(), F_OFD_GETLK, &other) == 0 && other.l_type != F_UNLCK;
}

}  // namespace

bool has_content(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) == 0) return about.st_size > 0;
  if (says_absent(errno)) return false;
  throw Error(ErrorCode::unavailable, "cannot look at the queue's file").about(shown_path(path)).because(errno).hint(
      "nothing was changed; try again");
}

std::uint64_t file_identity(const std::string& path) {
  struct statx about {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &about) != 0) {
    if (says_absent(errno)) return 0;
    throw Error(ErrorCode::unavailable, "cannot look at the queue's file").about(shown_path(path)).because(errno).hint(
        "try again; if the disk has trouble, dmesg says so");
  }
  const std::uint64_t parts[] = {about.stx_dev_major, about.stx_dev_minor, about.stx_ino,
                                 static_cast<std::uint64_t>(about.stx_btime.tv_sec), about.stx_btime.tv_nsec};
  return fnv1a({reinterpret_cast<const char*>(parts), sizeof parts}) | 1;
}

void say_log_is_there(int directory, std::uint64_t file) {
  struct flock lock = byte_of(file);
  ::fcntl(directory, F_OFD_SETLK, &lock);   // fails where no locks are to be had: then it is not said
}

LogLook look_at_log(const std::string& path) {
  LogLook look;
  const Fd log = open_at(AT_FDCWD, (path + "-wal").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!log && says_absent(errno))                // an index is given its size only after the log is there
    look.log_is_lost = has_content(path + "-shm") || (somebody_has_log(path) && file_identity(path + "-wal") == 0);
  const Fd index = open_at(AT_FDCWD, (path + "-shm").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  const auto head = index ? head_in_use(index.get()) : std::nullopt;
  if (!head) return look;
  if (log) look.log_is_anothers = is_of_another_index(log.get(), *head) || is_cut_short_of_home(log.get(), *head);
  if (head->frames <= head->frames_brought_home) return look;
  look.index_is_cut = does_not_find_all(index.get(), *head);
  const off_t size = size_of(head->frames, *head);
  if (log) look.log_is_lost = is_shorter(log.get(), size) || has_hole_before(log.get(), size);
  return look;
}

void refuse_locked(const std::string& path) {
  constexpr off_t first = 120;                   // of the locks in the index (UNIX_SHM_BASE in SQLite's os_unix.c)
  const std::string name = path + "-shm";
  const Fd index = open_at(AT_FDCWD, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct flock lock = byte_range(F_WRLCK, first, users_of_index - first);
  const auto is_taken = [&] { return ::fcntl(index.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK; };
  bool is_locked = index && is_taken();
  if (index && !is_locked) lock = byte_range(F_RDLCK, users_of_index, 1), is_locked = is_taken();   // as he begins
  if (!is_locked) return;
  const std::string who = lock.l_pid > 0 ? describe_process(lock.l_pid) : "a process of another container";
  throw Error(ErrorCode::unavailable, who + " opens the queue, and keeps it locked meanwhile").about(name)
      .hint("continue or end that process (kill -CONT, kill)");
}

void refuse_others(int directory, const std::string& name) {
  struct stat about;
  if (::fstat(directory, &about) != 0)
    throw Error(ErrorCode::unavailable, "cannot look at the queue's directory").about(name).because(errno);
  if (about.st_uid == ::geteuid() && (about.st_mode & 077) == 0) return;
  throw Error(ErrorCode::unavailable, "what is in the place of the queue's directory by now is not yours alone")
      .about(name).hint("see who may write to those above it, or name another: --queue-dir, THOLE_QUEUE_DIR");
}

std::string lost_index(const std::string& path) { return path + "-shm.lost"; }
std::string untold_index(const std::string& path) { return path + "-shm.untold"; }

void check_queue_file(const std::string& directory) {
  const std::string path = directory + "/queue.db";
  if (!has_content(path)) return;
  if (!open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK))
    throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(path).because(errno);
  const bool is_known = has_content(lost_index(path)) || has_content(untold_index(path));
  // It may have been shortened by whom that is for, just between.
  if (is_known || (look_at_log(path).log_is_lost && look_at_log(path).log_is_lost))
    throw Error(ErrorCode::unavailable, std::string(lost_log)).about(path + "-wal")
        .hint("the next command that uses the queue goes on with what is left: thole jobs");
  // The last change may stand in the log alone. That can be read as it is only where its index is.
  const bool with_log = has_content(path + "-wal") && has_content(path + "-shm");
  Database file(uri(path, with_log ? "?readonly_shm=1" : "?immutable=1"), Database::only_looks);
  schema_is_current(file, schema_steps());
}

}  // namespace thole::host
