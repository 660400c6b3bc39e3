// Records of lanes that are shorter than ours, on a disk that has no room for the rest.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/poke.hpp"
#include "host/mounting.hpp"
#include "host/queue/unseen_note.hpp"
#include "model/boot.hpp"
#include "unit/host/queue_fixture.hpp"

namespace thole::host::queue_tests {
namespace {

// Files may not become larger than this while it lives, as on a full disk.
struct NoRoom {
  explicit NoRoom(rlim_t size) {
    handler = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit little{size, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
  }
  rlimit before{};
  void (*handler)(int) = SIG_DFL;
};

class QueueRecords : public QueueFileTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(QueueRecords, OfAnEarlierBuildIsReadWhereThereIsNoRoomToMakeItLonger) {
  LocalLanes lanes(directory_);
  {
    const auto seat = lanes.take(0, 7);
    ASSERT_TRUE(seat);
    EXPECT_TRUE(seat->record.write(seat->record->bays[63].exit_code, 5));
    EXPECT_TRUE(seat->record.write(seat->record->bays[63].phase, model::TaskPhase::ended));
  }
  const std::string file = directory_ + "/lanes/0";
  ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(GetParam())), 0);
  {
    const NoRoom room(GetParam());
    const port::LaneView lane = lanes.look_at(0);
    ASSERT_TRUE(lane.record) << "the end of its task would be lost";
    EXPECT_EQ(lane.record->job.load(), 7u);
    EXPECT_EQ(lane.record->bays[63].phase.load(), model::TaskPhase::ended);
    EXPECT_EQ(lane.record->endings[63].steps.load(), 0u);
    EXPECT_FALSE(lane.record.write(lane.record->endings[63].steps, 1u));
    EXPECT_EQ(errno, EFBIG);
    EXPECT_TRUE(lane.record.write(lane.record->yield, 1u));
    EXPECT_EQ(lanes.look_at(0).record->yield.load(), 1u) << "the lane itself sees it";
  }
  EXPECT_EQ(std::filesystem::file_size(file), GetParam());
  const port::LaneView later = lanes.look_at(0);
  ASSERT_TRUE(later.record);
  EXPECT_EQ(later.record->bays[63].exit_code, 5);
  EXPECT_EQ(std::filesystem::file_size(file), sizeof(model::LaneRecord)) << "there is room again";
}

INSTANTIATE_TEST_SUITE_P(Builds, QueueRecords,
                         testing::Values(offsetof(model::LaneRecord, commands), offsetof(model::LaneRecord, endings)));

// It knows the fields up to the commands, and leaves the rest as it is.
TEST(LaneRecord, WhatALaneOfAnEarlierBuildLeavesAsItIsIsNotTakenForItsOwn) {
  model::LaneRecord record{};
  record.pid = 100;
  record.pid_namespace = 4'026'532'000;
  record.namespace_seal = model::namespace_seal(record);
  record.bays[2].pid = 101;
  record.bays[2].started_ms = 5;
  record.commands[2] = {7, 8};
  record.command_seals[2] = model::command_seal(record, 2);
  EXPECT_EQ(model::pid_namespace_of(record), 4'026'532'000u);
  EXPECT_EQ(model::command_of(record, 2).start_ticks, 7u);
  record.bays[2].pid = 102;
  EXPECT_EQ(model::command_of(record, 2).start_ticks, 0u);
  EXPECT_EQ(model::command_of(record, 2).number, 0u);
  EXPECT_EQ(model::pid_namespace_of(record), 4'026'532'000u);
  record.pid = 200;
  EXPECT_EQ(model::pid_namespace_of(record), 0u);
}

TEST_F(QueueFileTest, EachLaneDrawsANumber) {
  LocalLanes lanes(directory_);
  std::uint64_t first = 0;
  {
    const auto seat = lanes.take(0, 1);
    first = seat->record->number;
    EXPECT_NE(first, 0u);
    seat->record.write(seat->record->pid, 100);
    seat->record.write(seat->record->number_seal, model::number_seal(*seat->record));
    EXPECT_EQ(model::number_of(*seat->record), first);
    seat->record.write(seat->record->pid, 200);
    EXPECT_EQ(model::number_of(*seat->record), 0u) << "a lane of an earlier build leaves that of the one before";
    seat->record.write(seat->record->pid, 100);
  }
  const auto seat = lanes.take(0, 1);
  EXPECT_NE(seat->record->number, first);
  seat->record.write(seat->record->pid, 100);
  EXPECT_EQ(model::number_of(*seat->record), 0u) << "it is this lane's from its start on";
}

TEST_F(QueueFileTest, ARecordTellsThatItIsACopy) {
  const std::string copy = directory_ + "/copy", moved = directory_ + "/moved";
  std::filesystem::create_directory(copy);
  QueueFiles(copy).make();
  EXPECT_TRUE(LocalLanes(directory_).take(0, 1));
  std::filesystem::copy_file(directory_ + "/lanes/0", copy + "/lanes/0");
  EXPECT_FALSE(LocalLanes(directory_).look_at(0).is_copy);
  EXPECT_TRUE(LocalLanes(copy).look_at(0).is_copy);
  EXPECT_TRUE(LocalLanes(copy).take(0, 1));
  EXPECT_FALSE(LocalLanes(copy).look_at(0).is_copy) << "a lane of its own";
  std::filesystem::rename(copy, moved);
  EXPECT_FALSE(LocalLanes(moved).look_at(0).is_copy);
  const auto record = LocalLanes(moved).look_at(0).record;
  EXPECT_TRUE(record.write(record->file, {}));
  EXPECT_FALSE(LocalLanes(moved).look_at(0).is_copy) << "of an earlier build, which does not say";
}

TEST_F(QueueFileTest, ARecordThatIsWrittenMeanwhileWasNotPutBack) {
  LocalLanes lanes(directory_);
  auto runner = lanes.sit();
  const pid_t lane = lanes.fork(std::move(*lanes.take(0, 1)), *runner, [](port::LaneSeat& seat) {
    for (std::uint32_t i = 0;; ++i) (void)seat.record.write(seat.record->claimed, i);
    return 0;
  });
  unsigned torn = 0;
  for (int look = 0; look < 3000; ++look) torn += lanes.look_at(0).of_another_moment ? 1 : 0;
  ::kill(lane, SIGKILL);
  ::waitpid(lane, nullptr, 0);
  EXPECT_EQ(torn, 0u);
}

// A lane that has begun, and ended.
class EndedLane : public QueueFileTest {
 protected:
  void SetUp() override {
    auto runner = lanes.sit();
    const pid_t lane = lanes.fork(std::move(*lanes.take(0, 1)), *runner, [](port::LaneSeat&) { return 0; });
    int status = 1;
    ASSERT_EQ(::waitpid(lane, &status, 0), lane);
    ASSERT_EQ(status, 0);
  }
  LocalLanes lanes{directory_};
};

// By `cp -a`, `rsync -a --inplace`, `tar`: the file is the same one, its content that of another moment.
TEST_F(EndedLane, ItsRecordTellsThatItWasPutBack) {
  EXPECT_FALSE(lanes.look_at(0).of_another_moment);
  const std::string file = directory_ + "/lanes/0";
  struct stat about {};
  ASSERT_EQ(::stat(file.c_str(), &about), 0);
  const timespec times[] = {about.st_atim, {about.st_mtim.tv_sec - 3, about.st_mtim.tv_nsec}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  EXPECT_TRUE(lanes.look_at(0).of_another_moment);
  EXPECT_FALSE(lanes.look_at(0).is_copy);
  const auto record = lanes.look_at(0).record;
  EXPECT_TRUE(record.write(record->calls_seal, 0u));
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  EXPECT_FALSE(lanes.look_at(0).of_another_moment) << "of an earlier build, which writes through memory";
}

TEST_F(EndedLane, ItsRecordTellsThatItsDiskWasMountedAnew) {
  const auto record = lanes.look_at(0).record;
  EXPECT_EQ(model::mounting_of(*record), mounting_of(record.file()));
  if (model::mounting_of(*record) == 0) GTEST_SKIP() << "this file system does not tell which mounting it is";
  EXPECT_FALSE(lanes.look_at(0).of_another_moment);
  EXPECT_TRUE(record.write(record->mounting, record->mounting + 1));
  EXPECT_FALSE(lanes.look_at(0).of_another_moment) << "a lane of an earlier build, which has left this as it was";
  EXPECT_TRUE(record.write(record->mounting_seal, model::mounting_seal(*record)));
  EXPECT_TRUE(lanes.look_at(0).of_another_moment);
}

TEST_F(QueueFileTest, ANewLaneLeavesNothingOfHowTheEndOfAnotherOnesTaskWent) {
  LocalLanes lanes(directory_);
  {
    const auto before = lanes.take(0, 1);
    EXPECT_TRUE(before->record.write(before->record->endings[5].steps, 2u));
  }
  const auto seat = lanes.take(0, 1);
  ASSERT_TRUE(seat);
  EXPECT_EQ(seat->record->endings[5].steps.load(), 0u);
}

TEST_F(QueueFileTest, WhatWasStartedInAnotherPidNamespaceIsNotTakenForGone) {
  LocalLanes lanes(directory_);
  const auto seat = lanes.take(0, 1);
  port::RunTrace run{"1.0.1.of-nobody"};
  run.pid_namespace = pid_namespace();
  EXPECT_THAT(lanes.bearers(run), testing::IsEmpty());
  EXPECT_FALSE(lanes.signal_bearers(run, model::Signal::go_on));
  if (run.pid_namespace == first_of_pid_namespaces) GTEST_SKIP() << "from here all is seen";
  run.pid_namespace += 1;
  EXPECT_THROW(lanes.bearers(run), port::Unseen);
  EXPECT_THROW(lanes.holders(0, run), port::Unseen);
  EXPECT_THROW(lanes.signal_bearers(run, model::Signal::go_on), port::Unseen);
}

model::Task run_of_task(model::JobId job, model::TaskIndex index, unsigned runs = 1) {
  model::Task task;
  task.job = job;
  task.index = index;
  task.runs = runs;
  return task;
}

TEST_F(QueueFileTest, WhatARunnerDoesNotSeeIsToldUntilTheNextOneSits) {
  LocalLanes lanes(directory_);
  const std::string note = directory_ + "/unseen";
  auto seat = lanes.sit();
  EXPECT_FALSE(read_unseen(note));
  const std::vector<port::UnseenRun> runs = {{1, 2, 3, 4, port::UnseenBy::user_namespace, false, "", "it is\nelsewhere"},
                                             {5, 6, 7, 0, port::UnseenBy::pid_namespace, true, "any \n boot*", ""}};
  lanes.tell_sight({runs, {{8, ""}, {0, "a boot"}}});
  const auto told = read_unseen(note);
  ASSERT_TRUE(told);
  ASSERT_EQ(told->tasks.size(), 2u);
  EXPECT_EQ(told->seen, (std::set<port::SeenFrom>{{8, ""}, {0, "a boot"}}));
  auto first = told->find(run_of_task(1, 2, 3));
  ASSERT_TRUE(first);
  EXPECT_THAT(first->why, testing::AllOf(testing::HasSubstr("it is"), testing::HasSubstr("elsewhere")));
  first->why = runs[0].why;
  EXPECT_EQ(*first, runs[0]);
  EXPECT_EQ(told->find(run_of_task(5, 6, 7)), runs[1]);
  EXPECT_FALSE(told->find(run_of_task(5, 6, 8)));
  EXPECT_FALSE(told->find(run_of_task(5, 5, 7)));
  std::ofstream(note, std::ios::app) << "of one that is being written";
  EXPECT_FALSE(read_unseen(note));
  lanes.tell_sight({});
  EXPECT_TRUE(read_unseen(note)->tasks.empty());
  seat.reset();
  EXPECT_TRUE(lanes.sit());
  EXPECT_FALSE(read_unseen(note));
}

TEST_F(QueueFileTest, OfManyTasksWhatARunnerDoesNotSeeIsToldInOneLine) {
  LocalLanes lanes(directory_);
  std::vector<port::UnseenRun> runs;
  for (model::TaskIndex task = 100'000; task-- > 0;)
    if (task != 7) runs.push_back({.job = 1, .task = task, .runs = 1, .why = std::string(300, 'x')});
  lanes.tell_sight({runs, {}});
  EXPECT_LT(std::filesystem::file_size(directory_ + "/unseen"), 1000u);
  const auto told = read_unseen(directory_ + "/unseen");
  ASSERT_TRUE(told);
  for (const model::TaskIndex task : {0u, 6u, 8u, 99'999u}) EXPECT_TRUE(told->find(run_of_task(1, task))) << task;
  for (const model::TaskIndex task : {7u, 100'000u}) EXPECT_FALSE(told->find(run_of_task(1, task))) << task;
}

TEST_F(QueueFileTest, WhatARunnerTellsIsWrittenAgainUntilItStands) {
  LocalLanes lanes(directory_);
  const std::string note = directory_ + "/unseen";
  std::filesystem::create_directory(note);
  const port::RunnerSight sight{{{.job = 1, .task = 2, .runs = 3}}, {}};
  EXPECT_THROW(lanes.tell_sight(sight), Error);
  std::filesystem::remove(note);
  lanes.tell_sight(sight);
  EXPECT_TRUE(read_unseen(note));
  std::filesystem::remove(note);
  lanes.tell_sight(sight);
  EXPECT_TRUE(read_unseen(note));
  std::ofstream(note) << "of another one";
  lanes.tell_sight(sight);
  EXPECT_TRUE(read_unseen(note));
  const auto written = std::filesystem::last_write_time(note);
  lanes.tell_sight(sight);
  EXPECT_EQ(std::filesystem::last_write_time(note), written) << "it stands";
}

// Of a runner in another pid namespace, which may see what was started in there alone.
TEST_F(QueueFileTest, WhoseRunnerIsRelievedSeesNoLessThanThatOne) {
  const auto note_of = [](const port::UnseenRun& unseen, const std::set<port::SeenFrom>& seen) {
    return UnseenNote{1, in_first_user_namespace() ? 0 : user_namespace(), seen, {{unseen, {{unseen.task, unseen.task}}}}};
  };
  const std::uint64_t ours = pid_namespace();
  port::UnseenRun unseen{.job = 1, .task = 2, .runs = 3, .pid_namespace = ours};
  EXPECT_TRUE(sees_more_here(note_of(unseen, {})));
  EXPECT_TRUE(sees_more_here(note_of(unseen, {{ours, ""}, {0, ""}})));
  EXPECT_EQ(sees_more_here(note_of(unseen, {{ours + 1, ""}})), ours == first_of_pid_namespaces);
  auto where_we_are = note_of(unseen, {});
  where_we_are.pid_namespace = ours;
  EXPECT_FALSE(sees_more_here(where_we_are));

  const model::BootId boot = known_boot();
  unseen.pid_namespace = 0;
  unseen.boot = model::to_text({"a container's, which tells nothing to anybody else", false});
  EXPECT_FALSE(sees_more_here(note_of(unseen, {}))) << "what cannot be told here either is not seen here";
  unseen.boot = model::to_text(boot);
  EXPECT_TRUE(sees_more_here(note_of(unseen, {})));
  unseen.boot = model::to_text({"another boot of the machine", true});
  EXPECT_EQ(sees_more_here(note_of(unseen, {})), boot.kernels_own);
}

TEST_F(QueueFileTest, ARunnerIsAskedToLeaveByAByteOfItsOwn) {
  const QueueFiles files(directory_);
  EXPECT_FALSE(files.ask_runner_to_leave()) << "nobody reads";
  const Fd wake = files.open_wake();
  EXPECT_FALSE(pokes_of(wake.get()).at_all);
  EXPECT_TRUE(files.tell_runner());
  Poked poked = pokes_of(wake.get());
  EXPECT_TRUE(poked.at_all && !poked.to_leave);
  EXPECT_TRUE(files.tell_runner() && files.ask_runner_to_leave() && files.tell_runner());
  poked = pokes_of(wake.get());
  EXPECT_TRUE(poked.at_all && poked.to_leave);
}

}  // namespace
}  // namespace thole::host::queue_tests
