// What a dead lane has left, over the real store: lanes and processes are only told of.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <csignal>

#include "app/orphans.hpp"
#include "host/process/local_binder.hpp"
#include "host/queue/local_door.hpp"
#include "host/queue/log_files.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {
namespace {

struct ToldOfLanes : port::Lanes {
  std::function<Fd()> on_look = [] { return Fd(); };   // returns what hangs up when nobody has the lock any more
  model::LaneRecord* record = nullptr;
  bool lives = false;                            // a process of the task
  std::vector<int> signals;

  std::optional<port::RunnerSeat> sit() override { return std::nullopt; }
  bool keep(port::RunnerSeat&) override { return true; }
  std::vector<port::LaneView> look() override { return {}; }
  std::optional<port::LaneSeat> take(unsigned, model::JobId) override { return std::nullopt; }
  port::LaneView look_at(unsigned number) override {
    port::LaneView view;
    view.number = number;
    view.end = on_look();
    view.held = static_cast<bool>(view.end);
    view.record = port::MappedRecord(record, [](model::LaneRecord*) {});
    return view;
  }
  bool stands(const port::LaneSeat&) override { return true; }
  bool is_reachable(unsigned, const Fd&) override { return true; }
  pid_t fork(port::LaneSeat, port::RunnerSeat&, const std::function<int(port::LaneSeat&)>&) override { return -1; }
  std::vector<Fd> bearers(const port::RunTrace&) override {
    std::vector<Fd> ends;
    if (lives) ends.emplace_back(::eventfd(0, EFD_CLOEXEC));
    return ends;
  }
  void signal_bearers(const port::RunTrace&, int signal) override { signals.push_back(signal); }
  std::vector<Fd> holders(unsigned) override { return {}; }
  void run_aside(const std::string&, const std::string&, const std::vector<std::string>&) override {}
};

struct ClockOfOrphans : port::Clock {
  WallTime wall() const override { return at(100); }
  SteadyTime steady() const override { return {}; }
};

class OrphansTest : public QueueTest {
 protected:
  OrphansTest() {
    record.magic = model::lane_magic;
    boot.copy(record.boot.data(), boot.size());
    lanes.record = &record;
    orphans.of_queue(store->secret(), 0);
  }

  // Its one task runs in a lane that has died; `ran` and `phase`: what the lane has noted.
  model::Task left_running(const port::Submission& submission, model::TaskPhase phase, std::int32_t limit_clock = 0) {
    const model::JobId id = submit(submission);
    take(id);
    const model::Task task = store->running().at(0);
    model::LanePlace& place = record.places[0];
    place.job = task.job;
    place.task = task.index;
    place.runs = task.runs;
    place.limit_clock = limit_clock;
    place.started_ms = std::chrono::duration_cast<Millis>(at(1).time_since_epoch()).count();
    place.phase.store(phase);
    return task;
  }
  bool runs_in_store() { return !store->running().empty(); }

  const std::string boot = "this boot";
  model::LaneRecord record{};
  ToldOfLanes lanes;
  ClockOfOrphans clock;
  LocalDoor door{directory, {}};
  LogFiles logs{directory + "/logs"};
  LocalBinder binder;
  app::QueuePorts ports{.site = {},
                        .jobs = *store,
                        .lanes = lanes,
                        .door = door,
                        .logs = logs,
                        .keeper = {},
                        .bind = {binder},
                        .clock = clock,
                        .carry = {},
                        .queue = directory,
                        .host = "host",
                        .boot = boot,
                        .say = [](const std::string&) {}};
  app::Orphans orphans{ports};
};

TEST_F(OrphansTest, ACommandThatIsReachedAndClosesTheLockDuringTheLookIsNotLost) {
  const model::Task task = left_running(job(), model::TaskPhase::taken);
  lanes.on_look = [&] {
    record.places[0].phase.store(model::TaskPhase::reached);
    lanes.lives = true;
    return Fd();
  };
  orphans.settle(task, &record);
  EXPECT_TRUE(orphans.contains(task));
  EXPECT_TRUE(runs_in_store());
}

TEST_F(OrphansTest, WhatNeverBeganAndNobodyHasTheLockOfIsQueuedAgain) {
  const model::Task task = left_running(job(), model::TaskPhase::taken);
  orphans.settle(task, &record);
  EXPECT_FALSE(orphans.contains(task));
  EXPECT_EQ(count(task.job, model::TaskState::queued), 1u);
}

TEST_F(OrphansTest, WhatWasStoppedByARunnerBeforeIsContinuedWhenTheStoreDoesNotSayPaused) {
  port::Submission limited = job();
  limited.terms.time = Seconds{3600};
  const model::Task task = left_running(limited, model::TaskPhase::reached, -1 - 30);
  lanes.lives = true;
  orphans.settle(task, &record);
  orphans.look_after();
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGCONT});
  EXPECT_EQ(record.places[0].limit_clock, 99 - 30) << "it has run for 30 s, and stood for the rest";
  EXPECT_TRUE(orphans.next_look());
  orphans.look_after();
  EXPECT_EQ(lanes.signals.size(), 1u) << "once";
}

TEST_F(OrphansTest, WhatTheStoreSaysIsPausedIsStoppedAndItsLimitStandsStill) {
  port::Submission limited = job();
  limited.terms.time = Seconds{3600};
  const model::Task task = left_running(limited, model::TaskPhase::reached);
  lanes.lives = true;
  alter(task.job, port::Verb::pause);
  orphans.settle(store->running().at(0), &record);
  orphans.look_after();
  EXPECT_EQ(lanes.signals, std::vector<int>{SIGSTOP});
  EXPECT_EQ(record.places[0].limit_clock, -1 - 99);
  EXPECT_FALSE(orphans.next_look());
}

}  // namespace
}  // namespace thole::host
