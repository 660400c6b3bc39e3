// The log of a queue's file that was removed, cut or replaced while it was open: what was lost is told, and no number of it
// given again.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "host/store/file_check.hpp"
#include "host/store/log_vfs.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

class LostLog : public QueueTest {
 protected:
  LostLog() { open(); }

  void open() {
    store.reset();
    store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory, .kept = [this](const std::string& text) {
      if (says_) told_ += text.find(lost_log) != std::string::npos ? 1 : 0;
      return says_;
    }});
  }

  std::string log() const { return directory + "/queue.db-wal"; }
  std::string untold() const { return untold_index(directory + "/queue.db"); }

  // Refused at most once, and then as what can be tried again.
  model::JobId submitted() {
    try {
      return submit();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable) << error.full();
      EXPECT_EQ(error.full().find("damaged"), std::string::npos) << error.full();
      EXPECT_EQ(error.sys_errno(), 0) << error.full() << ": no call has failed";
    }
    return submit();
  }

  int told_ = 0;
  bool says_ = true;
};

// SQLite's files as they are, and what happens just after it has opened a log, or just before it brings one home: it has synced
// it then, and has written nothing since that was synced before.
std::function<void()> after_log_is_open, before_log_is_home;
const sqlite3_io_methods* log_methods = nullptr;
bool log_is_written = false;

int write_and_note(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  log_is_written = true;
  return log_methods->xWrite(file, bytes, size, offset);
}

int sync_and_go_on(sqlite3_file* file, int flags) {
  const int code = log_methods->xSync(file, flags);
  if (!std::exchange(log_is_written, false))
    if (const auto then = std::exchange(before_log_is_home, nullptr)) then();
  return code;
}

int open_and_go_on(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  sqlite3_vfs* usual = sqlite3_vfs_find(log_vfs());
  const int code = usual->xOpen(usual, path, file, flags, flags_out);
  if (code != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return code;
  static const sqlite3_io_methods ours = [file] {
    log_methods = file->pMethods;
    sqlite3_io_methods made = *log_methods;
    made.xWrite = write_and_note;
    made.xSync = sync_and_go_on;
    return made;
  }();
  file->pMethods = &ours;
  if (const auto then = std::exchange(after_log_is_open, nullptr)) then();
  return code;
}

const char* interrupted_vfs() {
  static sqlite3_vfs made = [] {
    sqlite3_vfs vfs = *sqlite3_vfs_find(log_vfs());
    vfs.zName = "interrupted";
    vfs.xOpen = open_and_go_on;
    vfs.pNext = nullptr;
    return vfs;
  }();
  sqlite3_vfs_register(&made, 0);
  return made.zName;
}

TEST_F(LostLog, ALogThatWasCutIsNotWrittenOn) {
  for (const off_t cut : {1, 24, 200, 2000, 4000, 4120, 5000, 12000}) {
    told_ = 0;
    model::JobId last = 0;
    for (int i = 0; i < 4; ++i) last = submit();
    const auto size = static_cast<off_t>(std::filesystem::file_size(log()));
    ASSERT_EQ(::truncate(log().c_str(), size - cut), 0);
    EXPECT_GT(submitted(), last + 900) << cut;
    EXPECT_EQ(told_, 1) << cut;
    expect_sound(*store, directory);
  }
}

TEST_F(LostLog, NothingIsStoredInALogThatWasExchangedWhileItWasOpened) {
  for (int i = 0; i < 4; ++i) submit();
  model::JobId others = 0;
  after_log_is_open = [&] {
    std::filesystem::remove(log());
    others = submitted();
  };
  const port::Submission one = job();
  SqliteJobStore late(JobStoreOptions{.directory = directory, .vfs = interrupted_vfs()});
  const model::JobId mine = late.submit({&one, 1}, at(1)).front().id;
  EXPECT_FALSE(after_log_is_open);
  EXPECT_GT(mine, others);
  std::size_t found = 0;
  for (const auto& row : store->jobs({})) found += row.id == mine || row.id == others ? 1 : 0;
  EXPECT_EQ(found, 2u) << "jobs that were acknowledged";
  expect_sound(*store, directory);
}

TEST_F(LostLog, OneThatIsCutWhileItIsBroughtHomeLeavesTheFileSound) {
  const std::vector many(3000, job());
  for (const double left : {0.9, 0.5, 0.1}) {
    submit();
    store->rest();                               // a process's locks go with the first of its connections
    {
      Database other(directory + "/queue.db", nullptr);
      other.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    }
    off_t size = 0;
    before_log_is_home = [&] {
      size = static_cast<off_t>(std::filesystem::file_size(log()));
      ASSERT_EQ(::truncate(log().c_str(), static_cast<off_t>(left * static_cast<double>(size))), 0);
    };
    SqliteJobStore(JobStoreOptions{.directory = directory, .vfs = interrupted_vfs()}).submit(many, at(1));
    ASSERT_GT(size, 0) << "it was brought home";
    submitted();
    expect_sound(*store, directory);
  }
}

// Else the file would be of no one moment without the log.
TEST_F(LostLog, NoPartOfItIsBroughtHome) {
  const auto bytes = [this] {
    std::ifstream file(directory + "/queue.db", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto submit_many = [this] {
    for (int i = 0; i < 2 * pages_of_commands; ++i) submit();
  };
  submit();
  store->rest();
  std::string before;
  {
    Database reader(directory + "/queue.db", nullptr);
    sqlite3_db_config(reader.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    reader.execute("BEGIN; SELECT count(*) FROM job");
    before = bytes();
    submit_many();
    EXPECT_TRUE(bytes() == before);
  }
  submit();
  EXPECT_FALSE(bytes() == before);
  std::filesystem::remove(log());
  submitted();
  expect_sound(*store, directory);
}

TEST_F(LostLog, WhatIsLeftOfACutOneUndoesNothingThatIsHome) {
  submit();
  const auto size_of_one = static_cast<off_t>(std::filesystem::file_size(log()));
  for (int i = 0; i < 3; ++i) submit();
  const model::JobId last = submit();
  {
    Database other(directory + "/queue.db", nullptr);
    sqlite3_db_config(other.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    other.execute("PRAGMA wal_checkpoint(PASSIVE)");
  }
  store->rest();                                 // says that somebody uses the index
  ASSERT_EQ(::truncate(log().c_str(), size_of_one), 0);
  SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({});
  open();                                        // with nobody beside it who knows the log
  EXPECT_EQ(store->jobs({}).size(), last);
  expect_sound(*store, directory);
}

TEST_F(LostLog, AFileAndItsLogThatArePutBackFromABackupAreWhole) {
  const auto copied = [](const std::string& from, const std::string& to) {
    for (const char* part : {"/queue.db", "/queue.db-wal"})
      std::filesystem::copy_file(from + part, to + part, std::filesystem::copy_options::overwrite_existing);
  };
  const std::string backup = directory + "/backup";
  make_queue_directory(backup);
  model::JobId last = 0;
  for (int i = 0; i < 6; ++i) last = submit();
  store.reset();
  copied(directory, backup);
  open();
  for (int i = 0; i < 3; ++i) submit();
  {
    Database other(directory + "/queue.db", nullptr);
    sqlite3_db_config(other.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    other.execute("PRAGMA wal_checkpoint(PASSIVE)");
  }
  store.reset();
  copied(backup, directory);
  open();
  EXPECT_EQ(store->jobs({}).size(), last);
  EXPECT_EQ(submit(), last + 1);
  EXPECT_EQ(told_, 0);
  expect_sound(*store, directory);
}

TEST_F(LostLog, NumbersOfWhatWasLostTwiceAreNotGivenAgain) {
  model::JobId last = submit();
  for (const bool both : {false, true, false}) {
    std::filesystem::remove(log());
    if (both) std::filesystem::remove(directory + "/queue.db-shm");
    const model::JobId next = submitted();
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(told_, 3);
  expect_sound(*store, directory);
}

TEST_F(LostLog, WhatCouldNotBeSaidIsSaidByWhoComesNext) {
  submit();
  says_ = false;
  std::filesystem::remove(log());
  (void)store->jobs({});
  EXPECT_TRUE(has_content(untold()));
  EXPECT_THROW(check_queue_file(directory), Error) << "what doctor asks";
  says_ = true;
  open();
  (void)store->jobs({});
  EXPECT_EQ(told_, 1);
  EXPECT_FALSE(has_content(untold()));
  check_queue_file(directory);
}

TEST_F(LostLog, AnOlderOneInItsPlaceIsNoneOfItsOwn) {
  submit();
  std::filesystem::rename(log(), directory + "/older");
  model::JobId last = 0;
  for (int i = 0; i < 4; ++i) last = submitted();
  EXPECT_EQ(told_, 1);
  std::filesystem::rename(directory + "/older", log());
  EXPECT_GT(submitted(), last);
  EXPECT_EQ(told_, 2);
  expect_sound(*store, directory);
}

TEST_F(LostLog, AnIndexThatWasCutLosesNothing) {
  model::JobId last = 0;
  for (int i = 0; i < 5; ++i) last = submit();
  const std::string index = directory + "/queue.db-shm";
  for (const off_t left : {16384, 4096, 200, 17000, 30000, 0}) {
    for (int i = 0; i < 3; ++i) last = submit();
    store->rest();                               // says that somebody uses the index
    const auto size = static_cast<off_t>(std::filesystem::file_size(index));
    ASSERT_EQ(::truncate(index.c_str(), left), 0);
    ASSERT_EQ(::truncate(index.c_str(), size), 0);
    EXPECT_EQ(submit(), last + 1) << left;
    ++last;
    EXPECT_EQ(store->jobs({}).size(), last) << left;
    expect_sound(*store, directory);
  }
  EXPECT_EQ(told_, 0);
}

// As one does who was stopped while he puts the index together.
TEST_F(LostLog, WhoKeepsItsIndexLockedIsNamed) {
  submit();
  store.reset();
  int up[2], down[2];
  ASSERT_EQ(::pipe(up) + ::pipe(down), 0);
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::close(down[1]);
    const int index = ::open((directory + "/queue.db-shm").c_str(), O_RDWR);
    struct flock lock = byte_range(F_WRLCK, 120, 8);
    char word = ::fcntl(index, F_SETLK, &lock) == 0 ? 'y' : 'n';
    if (::write(up[1], &word, 1) == 1) (void)!::read(down[0], &word, 1);
    ::_exit(0);
  }
  char word = 0;
  ASSERT_EQ(::read(up[0], &word, 1), 1);
  ASSERT_EQ(word, 'y');
  try {
    open();
    submit();
    ADD_FAILURE() << "it is locked";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(error.full().find("pid " + std::to_string(keeper) + " "), std::string::npos) << error.full();
  }
  for (const int end : {up[0], up[1], down[0], down[1]}) ::close(end);
  ASSERT_EQ(::waitpid(keeper, nullptr, 0), keeper);
  EXPECT_EQ(submit(), 2u);
}

TEST_F(LostLog, WhatIsHomeIsNotLost) {
  submit();
  store->rest();
  {
    Database other(directory + "/queue.db", nullptr);
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const model::JobId next = submit();
  EXPECT_EQ(next, 2u);
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace thole::host
