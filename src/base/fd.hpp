// A file descriptor as a move-only value, and the few whole-file operations thole needs.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace thole {

// Owns one descriptor; closes it when destroyed. -1 means "none".
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) { reset(); fd_ = std::exchange(other.fd_, -1); }
    return *this;
  }
  ~Fd() { reset(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// openat(2) with O_CLOEXEC always added and EINTR retried; the Fd is empty on failure (errno is set).
Fd open_at(int dir_fd, const char* path, int flags, mode_t mode = 0);

// The same open file, by a number greater than `number`; empty where none is to be had (errno is set).
Fd moved_above(Fd fd, int number);

// What `fd` is of, where this name in the directory leads to it (links are not followed); else empty. The number of links tells
// less: whoever may write a file can add one somewhere.
std::optional<struct stat> named(int dir_fd, const char* name, int fd);

// A pipe with both ends CLOEXEC; throws where none can be made.
struct Pipe { Fd read, write; };
Pipe make_pipe();

// A descriptor that becomes readable when the process ends; empty when there is no such process (or no pidfd).
Fd open_pidfd(pid_t pid);

// The whole of a file (for /proc and /sys too), at most `limit` bytes; empty optional when it cannot be
// opened or read (errno is set). Never blocks on a FIFO.
std::optional<std::string> read_file(const std::string& path, std::size_t limit = 16u << 20);

// What a symbolic link says; "" where that cannot be told.
std::string read_link(const std::string& path);

// Whether this process may execute the file, or look into the directory.
bool may_execute(const std::string& path);

// Writes all bytes; false with errno set otherwise. EINTR is retried.
bool write_all(int fd, std::string_view bytes);
// The same, waited for where the descriptor does not block: others who have it may have made it so.
bool put_all(int fd, std::string_view bytes);

// The same to the end of a file that nobody else writes to: all or nothing.
bool append_whole(int fd, std::string_view bytes);

// Writes `path` atomically (temporary file, rename; not synced); throws Error(unavailable).
void write_file(const std::string& path, std::string_view bytes, mode_t mode = 0644);

}  // namespace thole
