#include "host/store/job_database.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"
#include "host/store/log_vfs.hpp"

namespace thole::host {

namespace {

// How long the log grows before it is brought home, which takes two syncs. Whoever opens the queue while nobody else has it
// open reads all of it: 64 pages, some eight submissions, cost `thole submit` a fraction of a millisecond, 1,000 several. A
// lane has it open all the time and finishes thousands of tasks a second.
constexpr int pages_of_submissions = 64, pages_of_turns = 512;
constexpr off_t page_in_log = 4096 + 24;

// By a shared lock of this byte of queue.db-shm SQLite says that somebody uses it (UNIX_SHM_DMS in its os_unix.c).
constexpr off_t users_of_index = 128;

}  // namespace

JobDatabase::JobDatabase(std::string directory, const char* vfs, SchemaSteps steps)
    : directory_(std::move(directory)), vfs_(vfs ? vfs : log_vfs()), steps_(steps), watchers_(watch_directory()) {}

Database& JobDatabase::database() {
  if (database_) return *database_;
  const std::string path = directory_ + "/queue.db";
  // Made here, so that nobody else can read it whatever the umask; SQLite gives its other files the same mode.
  Fd made = open_at(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!made) throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(path).because(errno);
  made.reset();
  guard_ = open_at(AT_FDCWD, directory_.c_str(), O_RDONLY | O_DIRECTORY);
  if (guard_) ::flock(guard_.get(), LOCK_SH | LOCK_NB);
  turnstile_.emplace(directory_ + "/turnstile");
  database_.emplace(path, vfs_);
  try {
    // The log is kept where it is when the last one closes: bringing it home takes two syncs, which a short-lived `thole
    // submit` would pay every time.
    sqlite3_db_config(database_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    database_->execute("PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY");
    if (!schema_is_current(*database_, steps_)) {
      const Turnstile::Pass pass = turnstile_->pass();
      bring_up_to_date(*database_, steps_);
    }
  } catch (...) {
    close();
    throw;
  }
  return *database_;
}

void JobDatabase::close() {
  if (database_ && wrote_) shorten_log();
  wrote_ = false;
  database_.reset();
  turnstile_.reset();
  guard_.reset();
  durable_.reset();
}

void JobDatabase::rest() {
  if (database_) hold_index();
  close();
}

// Whoever opens the file and finds that nobody has its log's index empties that, and reads the whole log again. We say that
// somebody has it by a lock that belongs to a description, not to a process: SQLite's own, which goes with the process's first
// close of the file, leaves it alone, and our children have it too.
void JobDatabase::hold_index() {
  index_ = open_at(AT_FDCWD, (directory_ + "/queue.db-shm").c_str(), O_RDWR | O_NOFOLLOW);
  struct flock lock{};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = users_of_index;
  lock.l_len = 1;
  if (index_ && ::fcntl(index_.get(), F_OFD_SETLK, &lock) != 0) index_.reset();   // then the next one reads the log
}

// What tells how much of the log has been brought home stands in its index, and is gone with its last user: a series of
// submissions with nobody beside them would lengthen the log for ever. So the last one who wrote cuts it off.
void JobDatabase::shorten_log() {
  struct stat log{};
  if (::stat((directory_ + "/queue.db-wal").c_str(), &log) != 0 || log.st_size < pages_of_submissions * page_in_log) return;
  if (!guard_ || ::flock(guard_.get(), LOCK_EX | LOCK_NB) != 0) return;   // somebody else has the queue open
  try {
    const Turnstile::Pass pass = turnstile_->pass();
    sqlite3_busy_timeout(database_->handle(), 0);
    sqlite3_wal_checkpoint_v2(database_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                              nullptr);  // or the next one does
  } catch (const Error&) {
  }
}

void JobDatabase::make_durable(bool durable) {
  if (durable_ == durable) return;
  if (durable) database_->run("PRAGMA synchronous = FULL");
  else database_->run("PRAGMA synchronous = NORMAL");
  sqlite3_wal_autocheckpoint(database_->handle(), durable ? pages_of_submissions : pages_of_turns);
  durable_ = durable;
}

JobDatabase::Reading::~Reading() {
  try {
    if (db_.in_transaction()) db_.run("COMMIT");
  } catch (const Error&) {   // nothing was changed, so nothing is lost
  }
}

JobDatabase::Writing::Writing(JobDatabase& file, bool durable) : file_(file) {
  Database& db = file.database();
  file.make_durable(durable);
  pass_.emplace(file.turnstile_->pass());
  db.run("BEGIN IMMEDIATE");
  changes_before_ = sqlite3_total_changes64(db.handle());
  // A newer thole may have changed the file since it was opened.
  try {
    schema_is_current(db, file.steps_);
  } catch (...) {
    db.run("ROLLBACK");
    throw;
  }
}

JobDatabase::Writing::~Writing() {
  if (!pass_) return;
  try {
    if (file_.database_->in_transaction()) file_.database_->run("ROLLBACK");
  } catch (const Error&) {   // what is not committed is not there, whatever becomes of the rollback
  }
}

void JobDatabase::Writing::commit(bool some_job_ended) {
  file_.database_->run("COMMIT");
  file_.wrote_ = true;
  pass_.reset();
  if (sqlite3_total_changes64(file_.database_->handle()) != changes_before_) file_.watchers_.tell(some_job_ended);
}

}  // namespace thole::host
