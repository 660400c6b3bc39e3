#include "host/store/job_database.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/made.hpp"
#include "base/open_directory.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/store/file_check.hpp"
#include "host/store/log_vfs.hpp"

namespace thole::host {

namespace {

constexpr off_t page_in_log = 4096 + 24;
constexpr std::uint64_t most_numbers = 1'000'000'000'000;   // of jobs; a larger one is the name of something else

std::uint32_t origin_of(std::uint64_t file) { return static_cast<std::uint32_t>(file ^ file >> 32) | (file != 0 ? 1 : 0); }

// A new file beside the outputs of another's jobs: its jobs get numbers of their own, since tasks of the others may live.
std::uint64_t highest_number(const std::string& logs) {
  std::uint64_t highest = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(logs.c_str()), ::closedir);
  errno = listing ? 0 : errno;
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    highest = std::max(highest, parse_u64(name.substr(0, name.find('.'))).value_or(0));
    errno = 0;
  }
  if (errno != 0 && !says_absent(errno))
    throw Error(ErrorCode::unavailable, "cannot see which numbers earlier jobs had").about(logs).because(errno);
  return highest > most_numbers ? 0 : highest;
}

[[noreturn]] void cannot_make(const std::string& path, int why) {
  throw Error(ErrorCode::unavailable, "cannot make the queue's file").about(path).because(why)
      .hint(why == ENOSPC || why == EDQUOT ? "free some space there, then try again; nothing was changed" : "");
}

// Gives a file of this directory another name there that nothing has. False, with errno, otherwise: EEXIST where something has
// it.
bool rename_to_free(int directory, const std::string& from, const std::string& to) {
  if (::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // This file system cannot do it in one.
  return ::linkat(directory, from.c_str(), directory, to.c_str(), 0) == 0 && ::unlinkat(directory, from.c_str(), 0) == 0;
}

Error untold_commit(const Error& why) {
  return Error(ErrorCode::unavailable, std::string(why.what()) + "; whether this was stored all the same cannot be told")
      .about(why.object()).because(why.sys_errno()).hint("see what is there before it is said again: thole jobs");
}

std::string put_away_log(const std::string& path) { return path + "-wal.old"; }

// One that is gone too has something in its place. False (errno) where that cannot be.
bool put_away_index(const std::string& path) {
  if (::rename((path + "-shm").c_str(), lost_index(path).c_str()) == 0) return true;
  if (!says_absent(errno)) return false;
  const Fd in_its_place = create_at(AT_FDCWD, lost_index(path).c_str(), O_WRONLY | O_NOFOLLOW, 0600);
  return in_its_place && write_all(in_its_place.get(), lost_log);
}

// A file that is not there is as good as removed.
bool remove_file(const std::string& path, int directory = AT_FDCWD) {
  return ::unlinkat(directory, path.c_str(), 0) == 0 || says_absent(errno);
}

// What lies where a queue's file is to be: nothing, an empty file, or one that is somebody's.
enum class PathState { free, empty, taken };

PathState state_of_path(int directory, const std::string& path) {
  const Fd file = open_at(directory, "queue.db", O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct stat about{};
  if (!file && says_absent(errno)) return PathState::free;
  if (!file || ::fstat(file.get(), &about) != 0) cannot_make(path, errno);
  return about.st_size > 0 ? PathState::taken : PathState::empty;
}

}  // namespace

JobDatabase::JobDatabase(std::string directory, const char* vfs, SchemaSteps steps, Turnstile::Said kept)
    : directory_(std::move(directory)),
      vfs_(vfs ? vfs : log_vfs()),
      steps_(steps),
      kept_(std::move(kept)),
      watchers_(watch_directory()) {}

JobDatabase::Files JobDatabase::files_of(const std::string& path) {
  return {file_identity(path), file_identity(path + "-wal"), file_identity(path + "-shm")};
}

JobDatabase::Files JobDatabase::files_there() const { return files_of(name()); }

// Whoever is told so drops what he has of it: not said of a file that only cannot be looked at.
bool JobDatabase::replaced() const try {
  return origin_ != 0 && origin_of(file_identity(name())) != origin_;
} catch (const Error&) {
  return false;
}

bool JobDatabase::is_as_opened() const try {
  return database_ && files_there() == files_;
} catch (const Error&) {
  return false;
}

// So that nobody is told that what is in a removed log is stored.
bool JobDatabase::log_is_another() const try {
  return file_identity(name() + "-wal") != files_.log;
} catch (const Error&) {   // cannot be seen: nothing says so
  return false;
}

bool JobDatabase::renew() {
  close();
  index_.reset();
  origin_ = 0;
  return files_there().file != 0;
}

Database& JobDatabase::database() {
  look_where_it_is();
  if (!database_) open();
  return *database_;
}

void JobDatabase::look_where_it_is() {
  if (database_ && database_->in_transaction()) return;
  if (replaced()) {
    close();
    index_.reset();
    watchers_.tell(true);                        // who waits for its jobs will not be told by them
    throw Error(ErrorCode::unavailable, "the queue's file was set aside or removed while it was in use")
        .about(name())
        .hint("what runs goes on to its end; thole submit begins a new queue");
  }
  if (!database_) return;
  const bool are_others = files_there() != files_;
  if (!are_others && !database_->has_met_damage()) return;
  // Others may have mended it; or the log is lost: until that is looked into, what we know of it stays known.
  index_before_ = locked_index();
  if (are_others) before_ = std::move(guard_);
  close();
}

// Below the turnstile, so that nobody takes what we put away for the new file's. The log is kept for whoever wants to save
// what is in the file that lay here; an index is nothing without its file.
//
// A whole queue comes into its place at once, and never had a journal of SQLite's: that has the name of its file too, and who
// is just opening the file that lay here would take it for that one's, undo what it says, and remove it.
//
// All of it in the directory that we have open: another may have been put into its place, with the log of its own queue.
void JobDatabase::make_file() {
  const std::string path = name();
  const Turnstile::Pass pass = turnstile_->pass();
  const int here = guard_.get();
  const PathState before = state_of_path(here, path);
  if (before == PathState::taken) return;        // another process was here first
  const std::string bytes = new_queue(steps_, highest_number(way_ + "/logs"));
  const std::string name = "queue.db", made = name + ".new", log = name + "-wal", put_away = put_away_log(name);
  if (!remove_file(made, here)) cannot_make(path, errno);   // of somebody who was killed here
  // Nobody else can read it whatever the umask; SQLite gives its other files the same mode.
  const Fd file = create_at(here, made.c_str(), O_WRONLY | O_EXCL | O_NOFOLLOW, 0600);
  bool log_away = false;
  const auto failed = [&] {
    const int why = errno;
    ::unlinkat(here, made.c_str(), 0);
    if (log_away) rename_to_free(here, put_away, log);   // it may be that of a file which has come here meanwhile
    cannot_make(path, why);
  };
  if (!file || !write_all(file.get(), bytes) || ::fsync(file.get()) != 0) failed();
  log_away = ::renameat(here, log.c_str(), here, put_away.c_str()) == 0;
  if (!log_away && !says_absent(errno)) failed();
  for (const char* part : {"-shm", "-shm.lost", "-shm.untold", "-journal"})
    if (!remove_file(name + part, here)) failed();
  // An empty file gives way; one that has come meanwhile does not: that may be a queue which somebody has put back.
  const bool placed = before == PathState::free ? rename_to_free(here, made, name)
                                                : ::renameat(here, made.c_str(), here, name.c_str()) == 0;
  if (!placed) failed();
  // Nothing is in a log that somebody made meanwhile: it has no pass.
  for (const char* part : {"-wal", "-shm"}) ::unlinkat(here, (name + part).c_str(), 0);
  ::fsync(here);
}

void JobDatabase::open() {
  constexpr int tries = 20;
  for (int i = 0; i < tries; ++i)
    if (open_what_is_there()) return;
  throw Error(ErrorCode::unavailable, "the queue's files were exchanged while they were opened")
      .about(directory_).hint("try again");
}

// False where log, index or directory are not those any more that were opened: a commit would go into what nobody reads, and
// bringing that home would write over what others have stored since.
bool JobDatabase::open_what_is_there() {
  const std::string here = directory_ + "/.";      // itself, where its name is a link
  guard_ = open_at(AT_FDCWD, directory_.c_str(), O_RDONLY | O_DIRECTORY);
  if (!guard_) throw Error(ErrorCode::unavailable, "cannot open the queue's directory").about(directory_).because(errno);
  refuse_others(guard_.get(), directory_);         // what was looked at may have been exchanged since
  ::flock(guard_.get(), LOCK_SH | LOCK_NB);
  way_ = way_into(guard_.get(), directory_);
  const std::string path = way_to_file();
  try {
    turnstile_.emplace(way_ + "/turnstile", kept_);
    if (!has_content(path)) make_file();
  } catch (const Error&) {
    if (is_at(here, guard_.get())) throw;
    return false;
  }
  if (!open_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW) && errno != EROFS)
    throw Error(ErrorCode::unavailable, "cannot open the queue's file").about(name()).because(errno);
  if (!is_there(path + "-wal") && turnstile_->lets_pass())
    (void)turnstile_->pass();                    // who has just made the file is not through with its log
  lost_ = forget_lost_log();
  index_before_.reset();                         // else SQLite went by this index, with nobody else who has it open
  // Made before SQLite would: so it is known which log it opens. (And SQLite gives its files their modes only after they are
  // there: who finds one without opens the queue for reading only.)
  if (create_at(AT_FDCWD, (path + "-wal").c_str(), O_RDWR | O_EXCL | O_NOFOLLOW, 0600)) ::fsync(guard_.get());
  struct statfs where {};
  const bool on_btrfs = ::fstatfs(guard_.get(), &where) == 0 && where.f_type == BTRFS_SUPER_MAGIC;
  // The log's index is written through memory, where a want of room would be a signal.
  if (on_btrfs || umask_takes_owners_bits())
    if (const Fd index = create_at(AT_FDCWD, (path + "-shm").c_str(), O_RDWR | O_EXCL, 0600)) write_in_place(index);
  const Files before = files_of(path);
  database_.emplace(path, vfs_);
  try {
    // The log is kept where it is when the last one closes: bringing it home takes two syncs, which a short-lived `thole
    // submit` would pay every time.
    sqlite3_db_config(database_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    database_->execute("PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY");
    const bool is_current = schema_is_current(*database_, steps_);   // by now log and index are open
    files_ = files_of(path);
    const auto is_same = [](std::uint64_t was, std::uint64_t is) { return was == 0 || was == is; };
    if (!is_same(before.log, files_.log) || !is_same(before.index, files_.index) ||
        !is_at(here, guard_.get())) {
      close();
      return false;
    }
    if (!is_current) {
      const Turnstile::Pass pass = turnstile_->pass();
      if (files_there() == files_ && !schema_is_current(*database_, steps_)) {
        const bool was_older = database_->integer("PRAGMA user_version") != 0;
        bring_up_to_date(*database_, steps_);
        made_newer_ = made_newer_ || was_older;
      }
    }
    if (lost_) try_to_pass_over_lost_numbers();
    tell_of_lost_log();
  } catch (...) {
    close_and_name_keeper();
    throw;
  }
  if (files_.log != 0) say_log_is_there(guard_.get(), before.file);
  before_.reset();
  if (origin_ == 0) origin_ = origin_of(before.file);
  if (origin_of(files_.file) == origin_) return true;
  close();                                       // it was set aside while we opened it
  look_where_it_is();
  return false;
}

// Whoever goes by the index of a log that somebody has removed looks for pages that are nowhere. Without it the file is what it
// was when the log was brought home last. Put away, the index tells all who open the file from then on that it is so, until one
// of them has passed over the lost numbers: whoever opens it between the two would give one of these to a job.
bool JobDatabase::forget_lost_log() {
  const std::string path = way_to_file();
  if (!look_at_log(path).is_sound()) {
    const Turnstile::Pass pass = turnstile_->pass();
    LogLook look = look_at_log(path);            // somebody else may have been here first
    if (look.index_is_cut) {                     // what it does not find would be read as it was before
      if (!remove_file(path + "-shm"))
        throw Error(ErrorCode::unavailable, "the index of the queue's log was cut, and cannot be removed")
            .about(name() + "-shm")
            .because(errno);
      look = look_at_log(path);
    }
    // What is another's is no log of this file, as it is by now.
    const bool log_is_kept =
        !look.log_is_anothers || ::rename((path + "-wal").c_str(), put_away_log(path).c_str()) == 0;
    const bool is_lost = look.log_is_lost || look.log_is_anothers;
    if (is_lost && !(log_is_kept && put_away_index(path)))
      throw Error(ErrorCode::unavailable, "the queue's log was removed, and its index cannot be")
          .about(name() + "-shm")
          .because(errno);
  }
  return has_content(lost_index(path));
}

// Who only looks can do without, as on a full disk.
void JobDatabase::try_to_pass_over_lost_numbers() try {
  pass_over_lost_numbers();
} catch (const Error& error) {
  if (error.code() != ErrorCode::unavailable) throw;
}

// Lanes of jobs that were in the lost log may live on and ask for more of their job by its number: no other may have it. What
// had begun has a log of its own; what had not has left nothing, so there is room for it. It is brought home at once: the next
// log may be lost as well.
void JobDatabase::pass_over_lost_numbers() {
  constexpr std::uint64_t most_unbegun = 1000;
  const std::string path = way_to_file();
  const std::uint64_t last = highest_number(way_ + "/logs") + most_unbegun;
  const Turnstile::Pass pass = turnstile_->pass();
  if (files_there() != files_) return;           // of another log by now
  if (has_content(lost_index(path))) {           // else somebody else has
    make_durable(Durable::now, pages_of_commands);
    database_->run("INSERT INTO sqlite_sequence(name, seq) SELECT 'job', 0 "
                   "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'job')");
    database_->run("UPDATE sqlite_sequence SET seq = max(seq + ?, ?) WHERE name = 'job'", most_unbegun, last);
    int in_log = 0, home = 0;
    const int code = sqlite3_wal_checkpoint_v2(database_->handle(), nullptr, SQLITE_CHECKPOINT_FULL, &in_log, &home);
    if (code != SQLITE_OK || in_log != home)     // somebody reads what was there before
      throw Error(ErrorCode::unavailable, "the numbers of the jobs in the queue's lost log cannot be stored")
          .about(name()).hint("try again");
    if (::rename(lost_index(path).c_str(), untold_index(path).c_str()) != 0)
      throw Error(ErrorCode::unavailable, "the index of the queue's lost log cannot be put away")
          .about(lost_index(name())).because(errno);
  }
  lost_ = false;
}

void JobDatabase::tell_of_lost_log() {
  const std::string path = way_to_file();
  if (!has_content(untold_index(path))) return;
  const std::string text = name() + "-wal: " + std::string(lost_log) + "; see what is there: thole jobs";
  if (!kept_ || kept_(text)) remove_file(untold_index(path));
}

void JobDatabase::close() {
  if (wrote_ && is_as_opened()) shorten_log();
  wrote_ = false;
  database_.reset();
  turnstile_.reset();
  guard_.reset();
  durable_.reset();
  pages_ = 0;
  files_ = {};
}

void JobDatabase::close_and_name_keeper() {
  const int why = database_ ? sqlite3_errcode(database_->handle()) & 0xff : SQLITE_OK;
  const bool is_locked = why == SQLITE_BUSY || why == SQLITE_PROTOCOL;
  close();
  if (is_locked) refuse_locked(name());
}

void JobDatabase::rest() {
  if (is_as_opened()) index_ = locked_index();
  close();
}

// Whoever opens the file and finds that nobody has its log's index empties that, and reads the whole log again. We say that
// somebody has it by a lock that belongs to a description, not to a process: SQLite's own, which goes with the process's first
// close of the file, leaves it alone, and our children have it too.
Fd JobDatabase::locked_index() const {
  Fd index = open_at(AT_FDCWD, (way_ + "/queue.db-shm").c_str(), O_RDWR | O_NOFOLLOW);
  struct flock lock = byte_range(F_RDLCK, users_of_index, 1);
  if (index && ::fcntl(index.get(), F_OFD_SETLK, &lock) != 0) index.reset();   // then the next one reads the log
  return index;
}

// What tells how much of the log has been brought home stands in its index, and is gone with its last user: a series of
// submissions with nobody beside them would lengthen the log for ever. So the last one who wrote cuts it off.
void JobDatabase::shorten_log() {
  struct stat log{};
  if (::stat((way_ + "/queue.db-wal").c_str(), &log) != 0 || log.st_size < pages_of_commands * page_in_log) return;
  if (!guard_ || ::flock(guard_.get(), LOCK_EX | LOCK_NB) != 0) return;   // somebody else has the queue open
  try {
    const Turnstile::Pass pass = turnstile_->pass();
    sqlite3_busy_timeout(database_->handle(), 0);
    sqlite3_wal_checkpoint_v2(database_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                              nullptr);  // or the next one does
  } catch (const Error&) {
  }
}

void JobDatabase::make_durable(Durable durable, int pages) {
  if (durable_ != durable) {
    if (durable == Durable::now) database_->run("PRAGMA synchronous = FULL");
    else database_->run("PRAGMA synchronous = NORMAL");
  }
  if (pages_ != pages) sqlite3_wal_autocheckpoint(database_->handle(), pages);
  durable_ = durable;
  pages_ = pages;
}

JobDatabase::Reading::~Reading() {
  try {
    if (!within_ && db_.in_transaction()) db_.run("COMMIT");
  } catch (const Error&) {   // nothing was changed, so nothing is lost
  }
}

JobDatabase::Writing::Writing(JobDatabase& file, Durable durable, int pages) : file_(file), durable_(durable) {
  for (;;) {
    file.database();
    if (file.lost_) file.pass_over_lost_numbers();
    pass_.emplace(file.turnstile_->pass());
    if (file.files_there() == file.files_) break;
    pass_.reset();                               // it was set aside while we waited
  }
  Database& db = *file.database_;
  file.make_durable(durable, pages);
  try {
    db.run("BEGIN IMMEDIATE");
  } catch (const Error&) {
    pass_.reset();
    file.close_and_name_keeper();
    throw;
  }
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

namespace {
// What fails after the frames of a commit have been written: their sync, and their entry into the index.
bool stands_in_log(int code) {
  switch (code) {
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_SHMMAP:
    case SQLITE_IOERR_SHMSIZE:
    case SQLITE_IOERR_SHMLOCK:
    case SQLITE_IOERR_NOMEM:
    case SQLITE_NOMEM: return true;
    default: return false;
  }
}
}  // namespace

// A commit that has failed so is in the log already: who reads that anew, as whoever comes after the last
// one does, finds it there. Another one is written over its first page, below our pass, and the rest is nothing without that.
bool JobDatabase::take_back() try {
  Database& db = *database_;
  if (db.in_transaction()) db.run("ROLLBACK");
  const std::int64_t version = db.integer("PRAGMA user_version");
  db.run("BEGIN IMMEDIATE");
  try {
    db.execute(fmt::format("PRAGMA user_version = {}", version).c_str());
    db.run("COMMIT");
  } catch (...) {
    if (db.in_transaction()) db.run("ROLLBACK");
    throw;
  }
  return true;
} catch (const Error&) {
  return false;
}

void JobDatabase::Writing::commit(bool some_job_ended) {
  const SteadyTime began = std::chrono::steady_clock::now();
  try {
    file_.database_->run("COMMIT");
  } catch (const Error& error) {
    if (stands_in_log(sqlite3_extended_errcode(file_.database_->handle())) && !file_.take_back())
      throw Error(untold_commit(error));
    throw;
  }
  file_.wrote_ = true;
  if (durable_ == Durable::now && file_.log_is_another())
    throw untold_commit(Error(ErrorCode::unavailable, "the queue's log was removed or exchanged while it was written")
                            .about(file_.name() + "-wal"));
  if (durable_ == Durable::now) {
    const auto took = std::chrono::ceil<Millis>(std::chrono::steady_clock::now() - began);
    file_.sync_time_ = std::min((3 * file_.sync_time_ + took) / 4, Millis{1'000});
  }
  pass_.reset();
  if (sqlite3_total_changes64(file_.database_->handle()) != changes_before_) file_.watchers_.tell(some_job_ended);
}

}  // namespace thole::host
