// What a loss of power, a full disk, another version of the file and its damage do to the queue.
#include <gmock/gmock.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/error.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"
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

model::Boots boots(const std::string& id, bool kernels_own = true) { return model::Boots({id, kernels_own}); }

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

  DiskOfTests disk;
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

TEST_F(PowerLoss, WhatWasEditedStaysSo) {
  const auto id = submit();
  port::TermsChange change;
  change.priority = 7;
  store->edit({&id, 1}, change, at(1));
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    const std::string image = directory + "/image";
    std::filesystem::create_directory(image);
    disk.image(disk.moments(), directory, image, random);
    SqliteJobStore after(JobStoreOptions{.directory = image});
    EXPECT_EQ(after.jobs({}).at(0).terms.priority, 7) << "image " << i;
    after.rest();
    std::filesystem::remove_all(image);
  }
}

// A journal is known by the name of its file: who opens the file that lay there before would take it for that one's.
TEST_F(PowerLoss, NoFileOfAQueueEverHasAJournalBesideItsLog) {
  a_busy_hour();
  std::filesystem::rename(directory + "/queue.db", directory + "/queue.db.damaged");
  store->renew();
  submit();
  for (const DiskOfTests::Event& event : disk.record())
    EXPECT_FALSE(event.path.ends_with("-journal")) << "event " << &event - disk.record().data();
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
  for (int i = 0; i < 20; ++i) finish(id, i, TaskState::done);
  std::mt19937 random(3);
  for (int i = 0; i < 30; ++i) {
    const std::string image = directory + "/image";
    std::filesystem::create_directory(image);
    disk.image(disk.moments(), directory, image, random);
    SqliteJobStore after(JobStoreOptions{.directory = image});
    undone += after.jobs({}).at(0).counts[TaskState::done] < 20;
    after.rest();
    std::filesystem::remove_all(image);
  }
  EXPECT_GT(undone, 0u);
}

// What was taken has perhaps begun, so it is never found queued again; what nobody took is, if no task of its length would have
// been begun in the time of some syncs.
class PowerLossOfTakes : public PowerLoss, public ::testing::WithParamInterface<int> {
 protected:
  struct Taken {
    std::size_t moment;
    model::TaskIndex task;
  };
  std::vector<Taken> taken;

  // Tasks of so many milliseconds, of which every fifth fails and is taken once more.
  void run_tasks(model::JobId id, int count, int milliseconds) {
    WallTime now = at(0);
    for (int i = 0; i < count; ++i, now += Millis(milliseconds)) {
      const auto tasks = take(id, 1, now);
      ASSERT_EQ(tasks.size(), 1u);
      taken.push_back({disk.moments(), tasks[0].index});
      finish(id, tasks[0].index, i % 5 == 3 ? TaskState::queued : TaskState::done, now);
    }
  }
};

TEST_P(PowerLossOfTakes, NoneIsQueuedAgain) {
  const auto id = submit(300);
  run_tasks(id, 200, GetParam());
  std::mt19937 random(11);
  std::size_t ends_undone = 0;
  for (int i = 0; i < 60; ++i) {
    const std::size_t moment = taken[random() % taken.size()].moment + random() % 3;
    if (moment > disk.moments()) continue;
    const std::string image = directory + "/image";
    std::filesystem::create_directory(image);
    disk.image(moment, directory, image, random);
    SqliteJobStore after(JobStoreOptions{.directory = image});
    after.booted(boots("the next boot"), at(1'000));
    std::size_t begun = 0, running = 0;
    for (const Taken& one : taken) {
      if (one.moment > moment) continue;
      const auto task = after.task(id, one.task);
      EXPECT_TRUE(task->state != TaskState::queued || task->runs > 0) << "task " << one.task << ", moment " << moment;
      ++begun;
    }
    running = after.running().size();
    ends_undone += running > 0;
    if (GetParam() > 1'000) {
      EXPECT_LE(running, 2u) << "of " << begun;
    }
    expect_sound(after, image);
    after.rest();
    std::filesystem::remove_all(image);
    if (HasFailure()) break;
  }
  EXPECT_GT(ends_undone, 0u);                    // or the loss of power took nothing away
}

INSTANTIATE_TEST_SUITE_P(OfAnyLength, PowerLossOfTakes, ::testing::Values(1, 20, 100'000));

TEST_F(PowerLoss, OneSyncServesManyShortTasks) {
  const auto id = submit(400);
  const std::size_t before = disk.syncs();
  for (int i = 0; i < 400; ++i) ASSERT_EQ(take(id, 1, WallTime(at(0) + Millis(i))).size(), 1u);
  EXPECT_LT(disk.syncs() - before, 120u);
}

TEST_F(PowerLoss, AfterTheSameBootNothingIsCountedAsBegun) {
  const auto id = submit(400);
  store->booted(boots("this boot"), at(0));
  for (int i = 0; i < 100; ++i) take(id, 1, WallTime(at(0) + Millis(i)));
  store->booted(boots("this boot"), at(1));
  EXPECT_EQ(store->running().size(), 100u);
  store->booted(boots("another boot"), at(2));
  EXPECT_GE(store->running().size(), 100u);
}

// A container that has an id of its own cannot tell; whoever can tells what became of these, and each only once.
TEST_F(PowerLoss, WhereItCannotBeToldWhatMayHaveBegunIsNeitherQueuedNorOfAnotherBoot) {
  const auto id = submit(4000);
  store->booted(boots("this boot"), at(0));
  for (int i = 0; i < 100; ++i) take(id, 1, WallTime(at(0) + Millis(i)));
  store->booted(boots("a container's", false), at(1));
  const std::size_t untold = store->running().size() - 100;
  ASSERT_GT(untold, 0u);
  const auto of_untold = [&] {
    return std::ranges::count_if(store->running(), [](const auto& task) { return task.lane == model::lane_of_untold; });
  };
  EXPECT_EQ(of_untold(), static_cast<std::ptrdiff_t>(untold));
  take(id, 1, at(2));
  store->booted(boots("another container's", false), at(3));
  EXPECT_GE(of_untold(), static_cast<std::ptrdiff_t>(untold));
  const std::size_t of_container = static_cast<std::size_t>(of_untold()) - untold;
  expect_sound(*store, directory);
  store->booted(boots("this boot"), at(4));
  EXPECT_EQ(store->running().size(), 101u + of_container) << "under this boot they never began";
  EXPECT_EQ(of_untold(), static_cast<std::ptrdiff_t>(of_container));
  expect_sound(*store, directory);
  store->booted(boots("a container's", false), at(5));
  EXPECT_EQ(of_untold(), 0);
  EXPECT_EQ(store->running().size(), 101u);
}

TEST_F(PowerLoss, WhatWasNotToldIsOfAnotherBootOnceThatIsSure) {
  const auto id = submit(4000);
  store->booted(boots("this boot"), at(0));
  for (int i = 0; i < 100; ++i) take(id, 1, WallTime(at(0) + Millis(i)));
  store->booted(boots("a container's", false), at(1));
  const std::size_t running = store->running().size();
  store->booted(boots("the next boot"), at(2));
  EXPECT_EQ(store->running().size(), running);
  EXPECT_TRUE(std::ranges::none_of(store->running(), [](const auto& task) { return task.lane == model::lane_of_untold; }));
}

// Its lanes have ended, since it is held or the queue drained.
TEST_F(PowerLoss, OfAJobThatNobodyWorksForNoMoreHasBegunThanIsKnown) {
  const auto id = submit(400);
  store->booted(boots("this boot"), at(0));
  for (int i = 0; i < 100; ++i) {
    take(id, 1, WallTime(at(0) + Millis(i)));
    finish(id, static_cast<model::TaskIndex>(i), TaskState::done, WallTime(at(0) + Millis(i)));
  }
  const std::size_t before = disk.syncs();
  store->go_no_further({{id}});
  EXPECT_EQ(disk.syncs(), before) << "somebody works for it";
  store->go_no_further({});
  const std::size_t moment = disk.moments(), syncs = disk.syncs();
  EXPECT_GT(syncs, before);
  store->go_no_further({});
  EXPECT_EQ(disk.syncs(), syncs) << "that is on the disk";
  std::mt19937 random(12);
  const std::string image = directory + "/image";
  std::filesystem::create_directory(image);
  disk.image(moment, directory, image, random);
  SqliteJobStore after(JobStoreOptions{.directory = image});
  after.booted(boots("the next boot"), at(1'000));
  EXPECT_THAT(after.running(), IsEmpty());
  EXPECT_EQ(after.jobs({}).at(0).counts[TaskState::done], 100u);
  EXPECT_EQ(after.jobs({}).at(0).counts[TaskState::queued], 300u);
  expect_sound(after, image);
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
  ASSERT_EQ(another.turn({}, wish, at(6)).taken.size(), 1u);

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
    if (name != path) return;
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
