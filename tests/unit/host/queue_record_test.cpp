// Records of lanes that are shorter than ours, on a disk that has no room for the rest.
#include "base/poke.hpp"
#include "host/queue/unseen_note.hpp"
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
    seat->record->places[63].exit_code = 5;
    seat->record->places[63].phase.store(model::TaskPhase::ended);
  }
  const std::string file = directory_ + "/lanes/0";
  ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(GetParam())), 0);
  {
    const NoRoom room(GetParam());
    const port::LaneView lane = lanes.look_at(0);
    ASSERT_TRUE(lane.record) << "the end of its task would be lost";
    EXPECT_EQ(lane.record->job.load(), 7u);
    EXPECT_EQ(lane.record->places[63].phase.load(), model::TaskPhase::ended);
    EXPECT_EQ(lane.record->endings[63].steps.load(), 0u);
    lane.record->endings[0].steps.store(1);
    lane.record->endings[63].steps.store(1);
    lane.record->yield.store(1);
    EXPECT_EQ(lanes.look_at(0).record->yield.load(), 1u) << "the lane itself sees it";
  }
  EXPECT_EQ(std::filesystem::file_size(file), GetParam());
  const port::LaneView later = lanes.look_at(0);
  ASSERT_TRUE(later.record);
  EXPECT_EQ(later.record->places[63].exit_code, 5);
  EXPECT_EQ(std::filesystem::file_size(file), sizeof(model::LaneRecord)) << "there is room again";
}

INSTANTIATE_TEST_SUITE_P(Builds, QueueRecords,
                         testing::Values(offsetof(model::LaneRecord, commands), offsetof(model::LaneRecord, endings)));

// It knows the fields up to the commands, and leaves the rest as it is.
TEST_F(QueueFileTest, WhatALaneOfAnEarlierBuildLeavesAsItIsIsNotTakenForItsOwn) {
  LocalLanes lanes(directory_);
  const auto seat = lanes.take(0, 1);
  model::LaneRecord& record = *seat->record;
  record.pid = 100;
  record.pid_namespace = 4'026'532'000;
  record.namespace_seal = model::namespace_seal(record);
  record.places[2].pid = 101;
  record.places[2].started_ms = 5;
  record.commands[2] = {7, 8};
  record.command_seals[2] = model::command_seal(record, 2);
  EXPECT_EQ(model::pid_namespace_of(record), 4'026'532'000u);
  EXPECT_EQ(model::command_of(record, 2).start_ticks, 7u);
  record.places[2].pid = 102;
  EXPECT_EQ(model::command_of(record, 2).start_ticks, 0u);
  EXPECT_EQ(model::command_of(record, 2).number, 0u);
  EXPECT_EQ(model::pid_namespace_of(record), 4'026'532'000u);
  record.pid = 200;
  EXPECT_EQ(model::pid_namespace_of(record), 0u);
}

TEST_F(QueueFileTest, ANewLaneLeavesNothingOfHowTheEndOfAnotherOnesTaskWent) {
  LocalLanes lanes(directory_);
  lanes.take(0, 1)->record->endings[5].steps.store(2);
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
  EXPECT_FALSE(lanes.signal_bearers(run, SIGCONT));
  if (run.pid_namespace == first_of_pid_namespaces) GTEST_SKIP() << "from here all is seen";
  run.pid_namespace += 1;
  EXPECT_THROW(lanes.bearers(run), port::Unseen);
  EXPECT_THROW(lanes.holders(0, run), port::Unseen);
  EXPECT_THROW(lanes.signal_bearers(run, SIGCONT), port::Unseen);
}

TEST_F(QueueFileTest, WhatARunnerDoesNotSeeIsToldUntilTheNextOneSits) {
  LocalLanes lanes(directory_);
  const std::string note = directory_ + "/unseen";
  auto seat = lanes.sit();
  EXPECT_FALSE(read_unseen(note));
  const std::vector<port::UnseenRun> runs = {{1, 2, 3, 4, true, false, "it is\nelsewhere"}, {5, 6, 7, 0, false, true, ""}};
  lanes.tell_unseen(runs);
  auto told = read_unseen(note);
  ASSERT_TRUE(told);
  ASSERT_EQ(told->runs.size(), 2u);
  EXPECT_THAT(told->runs[0].why, testing::AllOf(testing::HasSubstr("it is"), testing::HasSubstr("elsewhere")));
  told->runs[0].why = runs[0].why;
  EXPECT_EQ(told->runs, runs);
  EXPECT_FALSE(is_seen_here(*told, told->runs[1])) << "the runner is where we are";
  told->user_namespace += 1;
  EXPECT_TRUE(is_seen_here(*told, told->runs[1]));
  std::ofstream(note, std::ios::app) << "of one that is being written";
  EXPECT_FALSE(read_unseen(note));
  lanes.tell_unseen({});
  EXPECT_TRUE(read_unseen(note)->runs.empty());
  seat.reset();
  EXPECT_TRUE(lanes.sit());
  EXPECT_FALSE(read_unseen(note));
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
