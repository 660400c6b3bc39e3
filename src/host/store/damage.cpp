#include "host/store/damage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/open_directory.hpp"
#include "host/store/log_vfs.hpp"

namespace thole::host {
namespace {

// Through SQLite's own descriptors: closing another one of the file would drop this process's locks. 0: it can be read.
int trouble_of_reading(sqlite3* db, int which) {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(db, "main", which, &file) != SQLITE_OK || !file || !file->pMethods) return 0;
  sqlite3_int64 size = 0;
  std::vector<char> part(1 << 16);
  if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) return EIO;
  for (sqlite3_int64 at = 0; at < size; at += static_cast<sqlite3_int64>(part.size())) {
    const auto amount = static_cast<int>(std::min(size - at, static_cast<sqlite3_int64>(part.size())));
    const int code = file->pMethods->xRead(file, part.data(), amount, at);
    if (code == SQLITE_IOERR_SHORT_READ) return 0;   // it has become shorter meanwhile
    if (code == SQLITE_OK) continue;
    int reason = 0;
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &reason);
    return reason != 0 ? reason : EIO;
  }
  return 0;
}

int note_first(void* into, int columns, char** values, char**) {
  if (columns > 0 && values[0]) *static_cast<std::string*>(into) = values[0];
  return 1;
}

enum class State { sound, damaged, untold };

// The check fails as any other reading does: for want of memory or descriptors, by a disk that refuses, or by somebody who
// writes. Of that a page that it could not get says the code of SQLite behind "unable to get the page. error code=".
State state_of(const char* file) {
  sqlite3* other = nullptr;
  std::string verdict;
  int code = sqlite3_open_v2(file, &other, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, log_vfs());
  if (code == SQLITE_OK) {
    sqlite3_db_config(other, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_busy_timeout(other, 1000);
    code = sqlite3_exec(other, "PRAGMA integrity_check(1)", note_first, &verdict, nullptr);
  }
  sqlite3_close(other);
  if (verdict == "ok") return State::sound;
  const auto is_damage = [](int reason) { return reason == SQLITE_CORRUPT || reason == SQLITE_NOTADB; };
  constexpr std::string_view of_page = "error code=";
  if (const auto at = verdict.find(of_page); at != std::string::npos)
    return is_damage(std::atoi(verdict.c_str() + at + of_page.size()) & 0xff) ? State::damaged : State::untold;
  return !verdict.empty() || is_damage(code & 0xff) ? State::damaged : State::untold;
}

}  // namespace

bool is_damaged(const char* file) { return state_of(file) == State::damaged; }

void refuse_damaged(sqlite3* db, const char* path) {
  const std::string file = shown_path(path);
  for (const int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER})
    if (const int reason = db ? trouble_of_reading(db, which) : 0)
      throw Error(ErrorCode::unavailable, "the queue's file cannot be read").about(file).because(reason)
          .hint("the disk says more: dmesg; the queue itself is as it was");
  const State state = state_of(path);
  if (state == State::untold)
    throw Error(ErrorCode::unavailable, "the queue's file could not be read, and not be checked").about(file)
        .hint("try again; if the disk has trouble, dmesg says so");
  if (state == State::sound)
    throw Error(ErrorCode::unavailable, "the queue's file could not be read, and is sound").about(file)
        .hint("try again; if the disk has trouble, dmesg says so");
  throw Error(ErrorCode::unavailable, "the queue's file is damaged").about(file)
      .hint("set it aside: mv " + file + " " + file + ".damaged");
}

}  // namespace thole::host
