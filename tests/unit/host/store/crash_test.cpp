// What a loss of power and a full disk do to the queue.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"
#include "unit/host/store/disk_of_tests.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::TaskState;
using port::Verb;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

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
    make_queue_directory(image);
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
    make_queue_directory(image);
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
  make_queue_directory(image);
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
    make_queue_directory(image);
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
    make_queue_directory(image);
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

// Its disk was taken down by an error, and mounted again.
TEST_F(PowerLoss, UnderTheSameBootTheDiskMayHaveBeenMountedAnew) {
  const auto id = submit(400);
  store->booted(boots("this boot"), at(0));
  Database file(directory + "/queue.db", nullptr);
  if (file.integer("SELECT mounting FROM queue") == 0) GTEST_SKIP() << "this file system does not tell which mounting it is";
  for (int i = 0; i < 100; ++i) take(id, 1, WallTime(at(0) + Millis(i)));
  file.execute("UPDATE queue SET mounting = mounting + 1");
  store->booted(boots("this boot"), at(1));
  const std::size_t running = store->running().size();
  EXPECT_GT(running, 100u);
  store->booted(boots("this boot"), at(2));
  EXPECT_EQ(store->running().size(), running) << "that has been told";
  expect_sound(*store, directory);
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
  make_queue_directory(image);
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

// It stands in the log already: whoever opens the file after the last one has left reads that.
TEST_F(FullDisk, WhatFailsAtTheSyncOfTheLogIsNotStored) {
  submit();
  disk.fail_syncs(1);
  EXPECT_THROW(submit(std::uint64_t{5}), Error);
  store->rest();
  EXPECT_EQ(SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({}).size(), 1u) << "by somebody else";
  store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory});
  EXPECT_EQ(store->jobs({}).size(), 1u) << "with nobody there";
  submit();
  EXPECT_EQ(store->jobs({}).size(), 2u);
  expect_sound(*store, directory);
}

TEST_F(FullDisk, ThatItCannotBeToldWhetherSomethingIsStoredIsSaid) {
  submit();
  disk.fail_syncs(2);
  try {
    submit();
    ADD_FAILURE() << "its sync has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.full(), HasSubstr("cannot be told"));
    EXPECT_THAT(error.full(), HasSubstr("thole jobs"));
  }
}

// The kernel refuses a page of the index as it does one for which a full disk has no room.
TEST_F(QueueTest, AnIndexOfTheLogThatHasNoRoomIsAnErrorAndNoEnd) {
  submit();
  const std::string index = directory + "/queue.db-shm";
  const auto size = std::filesystem::file_size(index);
  ASSERT_GT(size, 4096u);
  std::filesystem::resize_file(index, 4096);
  try {
    submit();
    ADD_FAILURE() << "its index cannot be written";
  } catch (const Error& error) {
    EXPECT_EQ(error.sys_errno(), ENOSPC);
    EXPECT_THAT(error.full(), HasSubstr("free some space"));
    const bool has_room = std::filesystem::space(directory).available > 16 * 1024 * 1024;
    EXPECT_EQ(error.full().find("quota") != std::string::npos, has_room);
  }
  std::filesystem::resize_file(index, size);
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

}  // namespace thole::host
