#include "host/store/sqlite.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <new>

#include "base/error.hpp"
#include "base/open_directory.hpp"
#include "base/text.hpp"
#include "host/store/damage.hpp"

namespace thole::host {

namespace {

// Why the kernel refused. Of what was written beside the file itself SQLite does not keep that: it is a limit of files' sizes,
// if there is one.
int reason_of(sqlite3* db) {
  if (!db) return 0;
  if (const int kept = sqlite3_system_errno(db)) return kept;
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  switch (sqlite3_extended_errcode(db)) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_TRUNCATE:
    case SQLITE_IOERR_SHMSIZE: return limited ? EFBIG : 0;
    default: return 0;
  }
}

// SQLite does not always tell a quota from a disk that is full.
bool has_room_for_others(const std::string& file) {
  struct statvfs space {};
  constexpr std::uint64_t plenty = 16 * 1024 * 1024;
  return ::statvfs(file.c_str(), &space) == 0 && space.f_bavail * space.f_frsize > plenty;
}

// Who can only look at the index of the log (a disk that is mounted read-only) and finds it half written, or no mark there up
// to which it may read, is refused, also where whoever writes there is about to mend that (walIndexReadHdr and walTryBeginRead
// in SQLite's wal.c): SQLite waits for him elsewhere, and not here. A later look finds it whole, unless all who wrote were
// killed.
bool may_pass(int code) { return code == SQLITE_READONLY_RECOVERY || code == SQLITE_READONLY_CANTINIT; }

[[noreturn]] void fail(sqlite3* db, int code) {
  const char* name = db ? sqlite3_db_filename(db, nullptr) : nullptr;
  const std::string path = name ? name : "the queue's file", file = shown_path(path);
  const int system = reason_of(db);
  const int kind = code & 0xff;
  if (kind == SQLITE_FULL || (kind == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT)))
    throw Error(ErrorCode::unavailable, "the queue cannot be written").about(file)
        .because(system == EDQUOT ? EDQUOT : ENOSPC)
        .hint(fmt::format("{}free some space there, then try again; nothing was changed",
                          has_room_for_others(file) ? "a quota may be reached: " : ""));
  // What is written goes by what is there: in a sound file nothing of it is there twice.
  const bool is_at_odds = kind == SQLITE_CONSTRAINT && is_damaged(path.c_str());
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || is_at_odds) refuse_damaged(db, path.c_str());
  if (kind == SQLITE_NOMEM) throw std::bad_alloc();
  if (may_pass(code))
    throw Error(ErrorCode::unavailable, "the index of the queue's log is half written, and can only be looked at from here")
        .about(file).hint("any command for this queue mends it where its disk can be written: thole jobs");
  if (code == SQLITE_IOERR_SHORT_READ)           // the errno that SQLite keeps is an earlier one's
    throw Error(ErrorCode::unavailable, "the queue's file or its log ends before it should: somebody may have cut it")
        .about(file).hint("try again");
  const std::string message = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  throw Error(ErrorCode::unavailable, "the queue cannot be used (" + message + ")").about(file).because(system)
      .hint(kind == SQLITE_IOERR ? "try again; if the disk has trouble, dmesg says so" : "");
}

// Another process may be putting the file's index together after a crash: the one case where SQLite itself has to wait. Writers
// queue at the turnstile before they get here.
constexpr int patience_ms = 10'000;

// Nor is it told from none at all while somebody makes it anew.
constexpr int patience_with_a_new_one_ms = 1'000;

template <class Look>
int look_again(sqlite3* db, const Look& look) {
  constexpr int pause_ms = 10;
  int code = look();
  const auto patience = [&] {
    if (may_pass(code)) return patience_ms;
    return code == SQLITE_CANTOPEN && sqlite3_db_readonly(db, nullptr) == 1 ? patience_with_a_new_one_ms : 0;
  };
  for (int waited_ms = 0; waited_ms < patience(); waited_ms += pause_ms) {
    if (waited_ms > 0) sqlite3_sleep(pause_ms);
    code = look();
  }
  return code;
}

}  // namespace

Rows::~Rows() {
  if (!statement_) return;
  if (owned_) {
    sqlite3_finalize(statement_);
  } else {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
}

bool Rows::next() {
  const int code = look_again(sqlite3_db_handle(statement_), [&] { return sqlite3_step(statement_); });
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  fail(sqlite3_db_handle(statement_), sqlite3_extended_errcode(sqlite3_db_handle(statement_)));
}

std::optional<std::int64_t> Rows::maybe(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::optional<WallTime> Rows::maybe_time(int column) const {
  const auto ms = maybe(column);
  return ms ? std::optional(WallTime(Millis(*ms))) : std::nullopt;
}

std::string_view Rows::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_, column);
  if (!bytes) return {};
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string_view Rows::blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  if (!bytes) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

namespace {
void check(sqlite3_stmt* statement, int code) {
  if (code != SQLITE_OK) fail(sqlite3_db_handle(statement), code);
}
}  // namespace

void Rows::bind(int index, std::nullptr_t) { check(statement_, sqlite3_bind_null(statement_, index)); }
void Rows::bind_integer(int index, std::int64_t number) { check(statement_, sqlite3_bind_int64(statement_, index, number)); }
void Rows::bind(int index, std::string_view text) {
  check(statement_,
        sqlite3_bind_text64(statement_, index, text.data() ? text.data() : "", text.size(), SQLITE_STATIC, SQLITE_UTF8));
}
void Rows::bind(int index, Blob blob) {
  check(statement_, sqlite3_bind_blob64(statement_, index, blob.bytes.data() ? blob.bytes.data() : "", blob.bytes.size(),
                                        SQLITE_STATIC));
}

Database::Database(std::string path, const char* vfs) : path_(std::move(path)) {
  open(path_.c_str(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
}

Database::Database(const std::string& uri, OnlyLooks) : path_(uri) {
  open(uri.c_str(), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
}

void Database::open(const char* name, int flags, const char* vfs) {
  const int code = sqlite3_open_v2(name, &handle_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
  if (code != SQLITE_OK) {
    const int system = handle_ ? sqlite3_system_errno(handle_) : 0;
    sqlite3_close(handle_);
    throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(shown_path(path_)).because(system);
  }
  sqlite3_busy_timeout(handle_, patience_ms);
}

Database::~Database() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

// How the last statement has ended SQLite tells until the next one.
void Database::note_damage() {
  const int last = sqlite3_extended_errcode(handle_), kind = last & 0xff;
  met_damage_ = met_damage_ || kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || last == SQLITE_IOERR_SHORT_READ;
}

void Database::execute(const char* script) {
  note_damage();
  const int code = look_again(handle_, [&] { return sqlite3_exec(handle_, script, nullptr, nullptr, nullptr); });
  if (code != SQLITE_OK) fail(handle_, code);
}

std::int64_t Database::integer(const char* sql) {
  Rows rows = query(sql);
  return rows.next() ? rows.integer(0) : 0;
}

sqlite3_stmt* Database::prepared(const char* sql) {
  note_damage();
  auto [known, is_new] = statements_.try_emplace(sql, nullptr);
  if (is_new) {
    try {
      known->second = prepare(sql, SQLITE_PREPARE_PERSISTENT);
    } catch (...) {
      statements_.erase(known);
      throw;
    }
  }
  if (sqlite3_stmt_busy(known->second) != 0) throw Error(ErrorCode::internal, "a statement used within itself").about(sql);
  return known->second;
}

sqlite3_stmt* Database::prepare(const char* sql, unsigned flags) {
  note_damage();
  sqlite3_stmt* statement = nullptr;
  const int code = look_again(handle_, [&] { return sqlite3_prepare_v3(handle_, sql, -1, flags, &statement, nullptr); });
  if (code != SQLITE_OK) fail(handle_, code);
  return statement;
}

}  // namespace thole::host
