// What a loss of power, a full disk, another version of the file and its damage do to the queue.
#include <gmock/gmock.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "unit/host/store/disk_of_tests.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::TaskState;
using port::Verb;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr const char* one_version[] = {"CREATE TABLE a(b)"};
constexpr const char* two_versions[] = {"CREATE TABLE a(b)", "ALTER TABLE a ADD COLUMN c; INSERT INTO a VALUES(1, 2)"};

// Every task counted one by one is what the job's counters say, and the file itself is sound.
void expect_sound(SqliteJobStore& store, const std::string& directory) {
  for (const model::Job& job : store.jobs({})) {
    model::TaskCounts counted;
    for (model::TaskIndex i = 0; i < job.tasks; ++i) ++counted[store.task(job.id, i)->state];
    EXPECT_EQ(counted, job.counts) << "job " << job.id;
    EXPECT_EQ(store.spec(job.id).argv, (std::vector<std::string>{"python", "train.py"}));
  }
  store.rest();
  Database db(directory + "/queue.db", nullptr);
  Rows rows = db.query("PRAGMA integrity_check");
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.text(0), "ok");
}

}  // namespace

class PowerLoss : public QueueTest {
 protected:
  PowerLoss() { store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory, .vfs = disk.vfs()}); }
  ~PowerLoss() override { store.reset(); }

  void submit_noting(std::uint64_t tasks) {
    submit(tasks);
    acknowledged.push_back(disk.moments());
  }

  // Jobs come in while others run; the log goes home to the file several times.
  void a_busy_hour() {
    for (int i = 0; i < 60; ++i) {
      submit_noting(i % 7 + 1);
      const auto id = static_cast<model::JobId>(i / 2 + 1);
      for (const port::TakenTask& task : take(id, 2)) finish(id, task.index, i % 3 ? TaskState::done : TaskState::failed);
      if (i % 10 == 5) alter(id, Verb::cancel);
      if (i % 10 == 7) alter(id, Verb::retry);
    }
  }

  thole::testing::DiskOfTests disk;
  std::vector<std::size_t> acknowledged;         // job i + 1 was acknowledged at this moment
};

TEST_F(PowerLoss, AtAnyMomentKeepsEveryJobThatWasAcknowledged) {
  a_busy_hour();
  const char* longer = std::getenv("THOLE_CRASH_IMAGES");
  const int images = longer ? std::atoi(longer) : 200;
  std::mt19937 random(20261121);
  std::size_t lost_nothing = 0;
  for (int i = 0; i < images; ++i) {
    const std::size_t moment = random() % (disk.moments() + 1);
    const std::string image = directory + "/image";
    std::filesystem::create_directory(image);
    disk.image(moment, directory, image, random);
    SqliteJobStore after(JobStoreOptions{.directory = image});
    std::size_t promised = 0;
    while (promised < acknowledged.size() && acknowledged[promised] <= moment) ++promised;
    const std::size_t found = after.jobs({}).size();
    EXPECT_GE(found, promised) << "moment " << moment << ", image " << i;
    EXPECT_LE(found, promised + 1);              // the one that was coming in
    expect_sound(after, image);
    lost_nothing += found == promised;
    after.rest();
    std::filesystem::remove_all(image);
    if (HasFailure()) break;
  }
  EXPECT_GT(lost_nothing, 0u);
}

TEST_F(PowerLoss, TheQueueGoesOnInWhatWasLeft) {
  a_busy_hour();
  std::mt19937 random(7);
  const std::string image = directory + "/image";
  std::filesystem::create_directory(image);
  disk.image(disk.moments(), directory, image, random);
  SqliteJobStore after(JobStoreOptions{.directory = image});
  const port::Submission one = job();
  EXPECT_EQ(after.submit({&one, 1}, at(0)).at(0).id, 61u);
}

// The disk that forgets does forget: what is not durable (a task's end) may be gone, or the test above proves nothing.
TEST_F(PowerLoss, MayUndoWhatWasNotPromised) {
  const auto id = submit(200);
  std::size_t undone = 0;
  take(id, 200);
  const std::size_t before = disk.moments();
  for (int i = 0; i < 20; ++i) finish(id, i, TaskState::done);
  std::mt19937 random(3);
  for (std::size_t moment = before; moment <= disk.moments(); ++moment) {
    const std::string image = directory + "/image";
    std::filesystem::create_directory(image);
    disk.image(moment, directory, image, random);
    SqliteJobStore after(JobStoreOptions{.directory = image});
    undone += after.jobs({}).at(0).counts[TaskState::running] == 0;
    after.rest();
    std::filesystem::remove_all(image);
  }
  EXPECT_GT(undone, 0u);
}

using FullDisk = PowerLoss;

TEST_F(FullDisk, RefusesASubmissionWholeAndTakesItLater) {
  submit();
  for (std::uint64_t room = 0; room < 20'000; room += 1024) {
    disk.room(room);
    try {
      submit(std::uint64_t{5});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_EQ(error.sys_errno(), ENOSPC);
      EXPECT_THAT(error.full(), HasSubstr("free some space"));
      EXPECT_EQ(store->jobs({}).size(), 1u) << room;
      continue;
    }
    EXPECT_GT(room, 4096u);                      // it did fail for want of room before
    EXPECT_EQ(store->jobs({}).size(), 2u);
    break;
  }
  disk.room(~std::uint64_t{0});
  submit();
  expect_sound(*store, directory);
}

TEST_F(FullDisk, AnEndThatCouldNotBeWrittenCanBeWrittenLater) {
  const auto id = submit(2);
  take(id);
  disk.room(100);
  EXPECT_THROW(finish(id, 0, TaskState::failed), Error);
  EXPECT_EQ(count(id, TaskState::running), 1u);
  disk.room(~std::uint64_t{0});
  finish(id, 0, TaskState::failed);
  EXPECT_EQ(store->task(id, 0)->exit_code, 1);
}

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
  EXPECT_THROW(submit(), Error);
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
