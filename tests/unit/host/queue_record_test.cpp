// Records of lanes that are shorter than ours, on a disk that has no room for the rest.
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

}  // namespace
}  // namespace thole::host::queue_tests
