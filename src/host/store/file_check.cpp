#include "host/store/file_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

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
  return ::stat((path + "-wal").c_str(), &about) != 0 && says_absent(errno) && has_content(path + "-shm");
}

void check_queue_file(const std::string& directory) {
  const std::string path = directory + "/queue.db";
  if (!has_content(path)) return;
  if (!open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK))
    throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(path).because(errno);
  if (log_is_lost(path))
    throw Error(ErrorCode::unavailable, std::string(lost_log)).about(path + "-wal")
        .hint("the next command that uses the queue goes on with what is left: thole jobs");
  // The last change may stand in the log alone. That can be read as it is only where its index is.
  const bool with_log = has_content(path + "-wal") && has_content(path + "-shm");
  Database file(uri(path, with_log ? "?readonly_shm=1" : "?immutable=1"), Database::only_looks);
  schema_is_current(file, schema_steps());
}

}  // namespace thole::host
