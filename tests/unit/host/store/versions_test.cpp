// What another version of the queue's file does, and what happens when that is damaged, or set aside while others have it open.
#include <gmock/gmock.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string_view>

#include "base/error.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::TaskState;
using ::testing::HasSubstr;

namespace {

constexpr const char* one_version[] = {"CREATE TABLE a(b)"};
constexpr const char* two_versions[] = {"CREATE TABLE a(b)", "ALTER TABLE a ADD COLUMN c; INSERT INTO a VALUES(1, 2)"};

}  // namespace

using Versions = QueueTest;

TEST_F(Versions, AnOlderFileIsBroughtUpToDate) {
  { Database db(directory + "/queue.db", nullptr); bring_up_to_date(db, one_version); }
  Database db(directory + "/queue.db", nullptr);
  EXPECT_FALSE(schema_is_current(db, two_versions));
  bring_up_to_date(db, two_versions);
  EXPECT_TRUE(schema_is_current(db, two_versions));
  EXPECT_EQ(db.integer("SELECT c FROM a"), 2);
  bring_up_to_date(db, two_versions);            // once
  EXPECT_EQ(db.integer("SELECT count(*) FROM a"), 1);
}

TEST_F(Versions, ANewerFileIsRefusedAndLeftAlone) {
  { Database db(directory + "/queue.db", nullptr); bring_up_to_date(db, two_versions); }
  SqliteJobStore older(JobStoreOptions{.directory = directory, .steps = one_version});
  try {
    older.jobs({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.full(), HasSubstr("of a newer thole (version 2; this one knows 1)"));
    EXPECT_THAT(error.full(), HasSubstr("queue.db"));
  }
}

TEST_F(Versions, AFileThatBecomesNewerWhileItIsOpenIsWrittenNoMore) {
  submit();
  { Database db(directory + "/queue.db", nullptr); db.execute("PRAGMA user_version = 99"); }
  EXPECT_THROW(submit(), port::NewerFile);
}

TEST_F(Versions, AFailedStepLeavesTheFileAsItWas) {
  const char* broken[] = {one_version[0], "INSERT INTO a VALUES(1); INSERT INTO no_such_table VALUES(1)"};
  Database db(directory + "/queue.db", nullptr);
  bring_up_to_date(db, one_version);
  EXPECT_THROW(bring_up_to_date(db, broken), Error);
  EXPECT_EQ(db.integer("SELECT count(*) FROM a"), 0);
  EXPECT_EQ(db.integer("PRAGMA user_version"), 1);
}

TEST_F(Versions, AnotherProgramsFileIsNoQueue) {
  { Database db(directory + "/queue.db", nullptr); db.execute("CREATE TABLE other(a)"); }
  EXPECT_THROW(submit(), Error);
}

using SetAside = QueueTest;

// Is told of each file that comes to where none was.
std::function<void(const char*)> before_placing;

}  // namespace thole::host

extern "C" int renameat2(int from, const char* old, int to, const char* name, unsigned flags) noexcept {
  if (thole::host::before_placing) thole::host::before_placing(name);
  return static_cast<int>(::syscall(SYS_renameat2, from, old, to, name, flags));
}

namespace thole::host {

TEST_F(SetAside, WhoHasTheOldFileOpenWritesToItNoMoreAndTheNewOneIsSound) {
  const auto id = submit(3);
  take(id);
  const std::uint32_t before = store->origin();
  std::filesystem::rename(directory + "/queue.db", directory + "/queue.db.damaged");
  SqliteJobStore another(JobStoreOptions{.directory = directory});
  const port::Submission one = job();
  const auto first = another.submit({&one, 1}, at(5)).at(0).id;
  port::TakeWish wish;
  wish.job = first;
  ASSERT_EQ(another.round({}, wish, at(6)).taken.size(), 1u);

  EXPECT_TRUE(store->replaced());
  EXPECT_THROW(finish(first, 0, TaskState::failed), Error);   // it would be the end of another's task
  EXPECT_THROW(store->jobs({}), Error);
  store->rest();
  EXPECT_THROW(store->jobs({}), Error);
  EXPECT_EQ(another.running().size(), 1u);

  EXPECT_TRUE(store->renew());
  EXPECT_NE(store->origin(), before);
  EXPECT_FALSE(store->replaced());
  EXPECT_EQ(count(first, TaskState::running), 1u);
  expect_sound(*store, directory);
}

TEST_F(SetAside, WithNothingInItsPlaceNoneIsMadeByLooking) {
  submit();
  std::filesystem::remove(directory + "/queue.db");
  EXPECT_TRUE(store->replaced());
  EXPECT_THROW(store->running(), Error);
  EXPECT_FALSE(std::filesystem::exists(directory + "/queue.db"));
  EXPECT_FALSE(store->renew());
  EXPECT_EQ(submit(), 1u);
}

TEST_F(SetAside, ALogThatIsLeftIsNotTakenForTheNewFiles) {
  submit(50);
  std::filesystem::rename(directory + "/queue.db", directory + "/queue.db.damaged");
  std::ofstream(directory + "/queue.db-wal", std::ios::in | std::ios::out | std::ios::binary) << std::string(4000, 'x');
  SqliteJobStore another(JobStoreOptions{.directory = directory});
  const port::Submission one = job();
  another.submit({&one, 1}, at(5));
  EXPECT_EQ(another.jobs({}).size(), 1u);
  expect_sound(another, directory);
  EXPECT_TRUE(std::filesystem::exists(directory + "/queue.db-wal.old"));
}

// A log names no file: SQLite would put what is in it into whatever lies beside it.
TEST_F(SetAside, NorIsOneThatIsPutBackWhileTheNewFileComes) {
  submit(50);
  const std::string path = directory + "/queue.db", kept = directory + "/kept";
  std::filesystem::copy_file(path + "-wal", kept);
  ASSERT_GT(std::filesystem::file_size(kept), 0u);
  std::filesystem::rename(path, path + ".damaged");
  unsigned placed = 0;
  before_placing = [&](const char* name) {
    if (std::string_view(name) != "queue.db") return;
    ++placed;
    std::filesystem::copy_file(kept, path + "-wal", std::filesystem::copy_options::overwrite_existing);
  };
  SqliteJobStore another(JobStoreOptions{.directory = directory});
  const port::Submission one = job(1, "new");
  another.submit({&one, 1}, at(5));
  before_placing = nullptr;
  EXPECT_EQ(placed, 1u);
  ASSERT_EQ(another.jobs({}).size(), 1u);
  EXPECT_EQ(another.jobs({}).at(0).name, "new");
  expect_sound(another, directory);
}

TEST_F(SetAside, AnEmptyFileAndAJournalThatWereLeftAreNoQueue) {
  const std::string path = directory + "/queue.db";
  { std::ofstream empty(path); }
  { std::ofstream journal(path + "-journal"); journal << std::string(4096, '\x7f'); }
  submit(7);
  EXPECT_FALSE(std::filesystem::exists(path + "-journal"));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  expect_sound(*store, directory);
}

// Tasks of the others may live, and write to logs of these numbers.
TEST_F(SetAside, NumbersGoOnBehindThoseOfTheOutputsThatAreThere) {
  std::filesystem::create_directory(directory + "/logs");
  for (const char* name : {"17.log", "21.code", "9", "notes"}) std::ofstream(directory + "/logs/" + name) << "x";
  EXPECT_EQ(submit(), 22u);
}

TEST_F(SetAside, AnIndexThatSomebodyRemovedIsMadeAnewAndSharedByAll) {
  submit();
  std::filesystem::remove(directory + "/queue.db-shm");
  SqliteJobStore another(JobStoreOptions{.directory = directory});
  const port::Submission one = job();
  another.submit({&one, 1}, at(5));
  EXPECT_EQ(submit(), 3u);
  EXPECT_EQ(another.jobs({}).size(), 3u);
  expect_sound(another, directory);
}

TEST_F(Versions, ADamagedFileIsSaidToBeDamaged) {
  submit();
  store->rest();
  std::filesystem::remove(directory + "/queue.db-wal");
  { std::ofstream out(directory + "/queue.db", std::ios::binary); out << std::string(8192, 'x'); }
  try {
    store->jobs({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.full(), HasSubstr("damaged"));
    EXPECT_THAT(error.hint(), HasSubstr("mv "));
  }
}

}  // namespace thole::host
