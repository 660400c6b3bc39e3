// The runner over the real store, with lanes that are only told of.
#include "app/queue/runner.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "app/queue/lane.hpp"
#include "base/poke.hpp"
#include "base/stream.hpp"
#include "host/queue/runners_children.hpp"
#include "unit/app/told_of_lanes.hpp"

namespace thole::host {
namespace {

struct NoAlarm : port::WallAlarm {
  void set(std::optional<WallTime>) override {}
  int fd() const override { return -1; }
};

// One that forks lanes which end at once, and has no descriptor to be had then until its next pass.
struct LanesWithoutDescriptors : ToldOfLanes {
  std::function<void()> on_fork, on_end;
  rlimit before{};
  Fd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> given_up = false;
  bool sat = false;
  app::LaneEnd ends = app::LaneEnd::nothing_to_do;   // each lane
  bool starves = true;                               // a lane's start closes all descriptors

  LanesWithoutDescriptors() { ::getrlimit(RLIMIT_NOFILE, &before); }

  std::optional<port::RunnerSeat> sit() override {
    if (std::exchange(sat, true)) return std::nullopt;
    port::RunnerSeat seat;
    seat.wake = Fd(::fcntl(wake.get(), F_DUPFD_CLOEXEC, 3));
    return seat;
  }
  bool keep(port::RunnerSeat&) override {
    ::setrlimit(RLIMIT_NOFILE, &before);
    return !given_up;
  }
  std::optional<port::LaneSeat> take(unsigned number, model::JobId) override {
    port::LaneSeat seat;
    seat.number = number;
    seat.record = port::SeenRecord(port::SeenRecord::Memory(record, [](const model::LaneRecord*) {}));
    return seat;
  }
  pid_t fork(port::LaneSeat, port::RunnerSeat&, const std::function<int(port::LaneSeat&)>&) override {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(ends));
    on_fork();
    if (!starves) return child;
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    return child;
  }
};

struct RunningClock : ClockOfLanes {
  SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
};

class RunnerTest : public LanesTest {
 protected:
  LanesWithoutDescriptors starved;
  RunnersChildren forked;
  RunningClock running;
  app::QueuePorts starved_ports = [this] {
    starved.record = &record;
    return app::QueuePorts{.site = {}, .jobs = *store, .lanes = starved, .children = forked, .door = door, .logs = logs,
                           .keeper = {},
                           .bind = {binder}, .make_door = {}, .clock = running, .carry = {}, .queue = directory,
                           .host = "host", .boot = boot,
                           .say = [](const std::string&) {}};
  }();
  NoAlarm alarm;
};

TEST_F(RunnerTest, ALaneForWhoseEndThereWasNoDescriptorIsSeenToEnd) {
  port::Submission submission = job();
  submission.spec.request.gpus = 0;
  const model::JobId id = submit(submission);
  starved.on_fork = [&] { alter(id, port::Verb::cancel); };   // then nothing is left to do but to see its end
  app::RunnerOptions options;
  options.grace = Millis{0};
  std::mutex mutex;
  std::condition_variable done;
  bool left = false;
  std::jthread watch([&] {
    std::unique_lock lock(mutex);
    if (done.wait_for(lock, Seconds{60}, [&] { return left; })) return;
    starved.given_up = true;
    poke(starved.wake.get());
  });
  EXPECT_NO_THROW(app::run_runner(starved_ports, alarm, options));
  {
    const std::lock_guard lock(mutex);
    left = true;
  }
  done.notify_one();
  watch.join();
  EXPECT_FALSE(starved.given_up) << "the runner waited for a lane that had ended";
}

// On a full disk: one lane after the other would take a GPU for nothing.
TEST_F(RunnerTest, ALaneThatCanWriteNothingIsFollowedByAnotherOneAfterAPause) {
  port::Submission submission = job(2);
  submission.spec.request.gpus = 0;
  submit(submission);
  starved.ends = app::LaneEnd::no_store;
  starved.starves = false;
  std::vector<SteadyTime> started;
  starved.on_fork = [&] {
    started.push_back(std::chrono::steady_clock::now());
    starved.given_up = started.size() == 3;      // then the runner has lost its seat
  };
  app::run_runner(starved_ports, alarm, {});
  ASSERT_EQ(started.size(), 3u);
  EXPECT_GE(started.at(1) - started.at(0), Millis{900});
  EXPECT_GE(started.at(2) - started.at(1), Millis{1'800});
}

// Of a store that contradicts itself: one lane after the other would be started for nothing.
TEST_F(RunnerTest, LanesThatFindNothingToDoAreFollowedByOthersAfterAPauseInTheEnd) {
  port::Submission submission = job(2);
  submission.spec.request.gpus = 0;
  submit(submission);
  starved.starves = false;
  std::vector<SteadyTime> started;
  starved.on_fork = [&] {
    started.push_back(std::chrono::steady_clock::now());
    starved.given_up = started.size() == 66;
  };
  app::run_runner(starved_ports, alarm, {});
  ASSERT_EQ(started.size(), 66u);
  Millis longest{0};
  for (std::size_t i = 1; i < started.size(); ++i)
    longest = std::max(longest, std::chrono::duration_cast<Millis>(started[i] - started[i - 1]));
  EXPECT_GE(longest, Millis{900});
}

}  // namespace
}  // namespace thole::host
