// Seats, records and logs of a queue's processes.
#include "unit/host/queue_fixture.hpp"

namespace thole::host::queue_tests {
namespace {

TEST_F(QueueSeats, ThereIsOneRunner) {
  LocalLanes lanes(directory_);
  const pid_t first = child_that([&] { static auto seat = lanes.sit(); });
  EXPECT_FALSE(lanes.sit());
  LocalDoor door(directory_, {});
  EXPECT_EQ(door.runner(), first);
  door.stir();                           // and starts none
  end(first);
  EXPECT_FALSE(door.runner());
  EXPECT_TRUE(lanes.sit());
}

TEST_F(QueueSeats, ARunnerIsToldByAByte) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  const pid_t teller = ::fork();
  if (teller == 0) {
    LocalDoor(directory_, {}).stir();
    ::_exit(0);
  }
  ::waitpid(teller, nullptr, 0);
  EXPECT_TRUE(is_readable(seat->wake.get()));
}

TEST_F(QueueSeats, ALaneIsHeldAsLongAsACopyOfItsLockIsOpen) {
  LocalLanes lanes(directory_);
  auto seat = lanes.take(4, 17);
  ASSERT_TRUE(seat);
  EXPECT_FALSE(lanes.take(4, 18));
  EXPECT_EQ(seat->record->job.load(), 17u);
  Fd copy(::fcntl(seat->life.get(), F_DUPFD_CLOEXEC, 10));
  seat->life.reset();
  seat->mail.reset();
  port::LaneView view = lanes.look_at(4);
  EXPECT_TRUE(view.held);
  EXPECT_FALSE(view.mail);              // nobody reads its mail
  copy.reset();
  pollfd end{view.end.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 1000), 1);
  EXPECT_FALSE(lanes.look_at(4).held);
  EXPECT_TRUE(lanes.take(4, 18));
}

TEST_F(QueueSeats, AForkedLaneHasNothingOfTheRunnersSeat) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  ASSERT_TRUE(seat);
  Pipe go = make_pipe(), up = make_pipe();
  auto lane_seat = lanes.take(0, 1);
  const pid_t lane = lanes.fork(std::move(*lane_seat), *seat, [&](port::LaneSeat&) {
    go.write.reset();
    up.write.reset();
    char byte;
    return ::read(go.read.get(), &byte, 1) == 0 ? 7 : 1;
  });
  seat.reset();
  up.write.reset();
  char byte;
  EXPECT_EQ(::read(up.read.get(), &byte, 1), 0) << "until the lane is at its work";
  EXPECT_TRUE(lanes.sit());              // the lane lives and does not keep us from it
  EXPECT_TRUE(lanes.look_at(0).mail);
  go.write.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(lane, &status, 0), lane);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(lanes.look_at(0).held);
}

// As a lane lies in wait for its first turn on a busy machine, with copies of all that its runner had open.
TEST_F(QueueSeats, ALaneThatWasForkedAMomentAgoIsNotTakenForItsRunner) {
  Pipe of_child = make_pipe();
  const pid_t first = child_that([&] {
    static auto seat = LocalLanes(directory_).sit();
    const pid_t lane = ::fork();
    if (lane == 0)
      for (;;) ::pause();
    static_cast<void>(write_all(of_child.write.get(), std::to_string(lane)));
  });
  char number[16]{};
  ASSERT_GT(::read(of_child.read.get(), number, sizeof number - 1), 0);
  const auto lane = static_cast<pid_t>(std::atoi(number));
  end(first);
  ASSERT_TRUE(QueueFiles(directory_).watch_runner()) << "somebody has the FIFO open";
  EXPECT_FALSE(LocalDoor(directory_, {}).runner_end());
  LocalDoor(directory_, runner(), Millis{60'000}).stir();
  EXPECT_EQ(starts(), "x\n");
  const auto now = LocalDoor(directory_, {}).runner();
  EXPECT_TRUE(now && *now != lane && *now != first);
  ::kill(lane, SIGKILL);
}

// One that has lost the race for the seat, or was killed before it, and has not ended yet.
TEST_F(QueueSeats, WhoReadsTheFifoWithoutTheSeatIsNotTold) {
  const pid_t other = child_that([&] { static const Fd wake = QueueFiles(directory_).open_wake(); });
  for (const std::string text : {"", "4194305\n", "no number\n"}) {   // of a full disk; of a runner before; of somebody else
    std::ofstream(directory_ + "/runner") << text;
    LocalDoor(directory_, runner(), Millis{60'000}).stir();
    EXPECT_EQ(starts(), "x\n") << text;
    const auto now = LocalDoor(directory_, {}).runner();
    ASSERT_TRUE(now);
    const Fd ended = open_pidfd(*now);
    ::kill(*now, SIGKILL);
    is_readable_by(ended.get(), std::nullopt);
    std::filesystem::remove(directory_ + "/starts");
  }
  end(other);
}

// The first one that is started is killed, so to speak, before it sits; somebody reads the FIFO meanwhile.
TEST_F(QueueSeats, AStartedRunnerThatEndsBeforeItSitsIsStartedAgain) {
  const pid_t other = child_that([&] { static const Fd wake = QueueFiles(directory_).open_wake(); });
  check_seat(QueueFiles(directory_).runner_file());
  LocalDoor(directory_, runner("[ $(wc -l < " + directory_ + "/starts) = 2 ] || { true & echo $! >&0; wait; exit 0; };"),
            Millis{60'000})
      .stir();
  EXPECT_EQ(starts(), "x\nx\n");
  EXPECT_TRUE(LocalDoor(directory_, {}).runner());
  end(other);
}

TEST_F(QueueSeats, ProcessesAreFoundByTheMarkOfTheirTask) {
  LocalLanes lanes(directory_);
  EXPECT_TRUE(lanes.bearers({"1.0.1@" + directory_}).empty());
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string mark = "THOLE_TASK=1.0.1@" + directory_;
    char* environment[] = {const_cast<char*>(mark.c_str()), nullptr};
    ::execle("/bin/sleep", "sleep", "600", nullptr, environment);
    ::_exit(127);
  }
  while (lanes.bearers({"1.0.1@" + directory_}).empty() && ::waitpid(child, nullptr, WNOHANG) == 0) {}
  EXPECT_TRUE(lanes.bearers({"1.0.2@" + directory_}).empty());
  auto found = lanes.bearers({"1.0.1@" + directory_});
  ASSERT_EQ(found.size(), 1u);
  lanes.signal_bearers({"1.0.1@" + directory_}, model::Signal::kill);
  pollfd end{found.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 5000), 1);
  ::waitpid(child, nullptr, 0);
}

constexpr const char* mark_of_run = "1.0.1.0123456789abcdef@";

// A child that shows the mark, and behind it this.
pid_t child_of_run(const std::string& rest) {
  const std::string word = std::string("THOLE_TASK=") + mark_of_run + rest;
  const pid_t child = ::fork();
  if (child == 0) {
    char* environment[] = {const_cast<char*>(word.c_str()), nullptr};
    ::execle("/bin/sleep", "sleep", "600", nullptr, environment);
    ::_exit(127);
  }
  while (environment_of(child).look_for(word + '\0') != Word::there && ::waitpid(child, nullptr, WNOHANG) == 0) {}
  return child;
}

// The path of the queue is no part of it: there are several.
TEST_F(QueueSeats, AMarkIsFoundByWhateverPathItsTaskWasStarted) {
  LocalLanes lanes(directory_);
  const std::string lane = port::word_of_lane(0xabc);
  const pid_t child = child_of_run(lane + "/by/another/path");
  EXPECT_EQ(lanes.bearers({mark_of_run + lane}).size(), 1u);
  EXPECT_TRUE(lanes.bearers({mark_of_run + port::word_of_lane(0xabd)}).empty()) << "a copy's lane has another number";
  EXPECT_TRUE(lanes.bearers({"1.0.1.0123456789abcde0@"}).empty());
  end(child);
}

port::UnseenBy unseen_by(const std::function<void()>& look) {
  try {
    look();
  } catch (const port::Unseen& unseen) {
    return unseen.by;
  }
  return port::UnseenBy::pid_namespace;
}

// Of an earlier build, or where its record is gone; and of a copy.
TEST_F(QueueSeats, WhatIsNotKnownAsThisQueuesIsNotSignalled) {
  LocalLanes lanes(directory_);
  port::RunTrace run{mark_of_run};
  run.known_by = port::RunTrace::By::directory;
  const std::string other = directory_ + "/copy", link = directory_ + "/link";
  std::filesystem::create_directory(other);
  std::filesystem::create_directory_symlink(directory_, link);
  for (const std::string& rest : {other, directory_ + "/gone", port::word_of_lane(1) + other}) {
    const pid_t child = child_of_run(rest);
    EXPECT_EQ(unseen_by([&] { lanes.bearers(run); }), port::UnseenBy::original) << rest;
    EXPECT_EQ(unseen_by([&] { lanes.signal_bearers(run, model::Signal::kill); }), port::UnseenBy::original) << rest;
    EXPECT_FALSE(is_dying(child)) << rest;
    end(child);
  }
  for (const std::string& rest : {directory_, link, port::word_of_lane(1) + directory_}) {
    const pid_t child = child_of_run(rest);
    run.known_by = port::RunTrace::By::nothing;
    EXPECT_EQ(unseen_by([&] { lanes.signal_bearers(run, model::Signal::kill); }), port::UnseenBy::original) << rest;
    EXPECT_FALSE(is_dying(child)) << rest;
    run.known_by = port::RunTrace::By::directory;
    EXPECT_TRUE(lanes.signal_bearers(run, model::Signal::kill)) << rest;
    EXPECT_TRUE(is_dying(child)) << rest;
    end(child);
  }
}

// Its number may have been that of another, in the pid namespace of its lane.
TEST_F(QueueSeats, ANumberOfWhichNothingElseIsKnownIsWaitedForAndNotSignalled) {
  LocalLanes lanes(directory_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::pause();
    ::_exit(0);
  }
  ::setpgid(child, child);
  port::RunTrace run{.mark = "1.0.1.of-nobody@", .command = child};
  EXPECT_EQ(lanes.bearers(run).size(), 1u);
  EXPECT_FALSE(lanes.signal_bearers(run, model::Signal::kill));
  EXPECT_FALSE(is_dying(child));
  run.pid_namespace = pid_namespace();
  run.known_by = port::RunTrace::By::nothing;    // what the copy of a record has noted is the original's
  EXPECT_EQ(unseen_by([&] { lanes.signal_bearers(run, model::Signal::kill); }), port::UnseenBy::original);
  EXPECT_FALSE(is_dying(child));
  run.known_by = port::RunTrace::By::directory;  // it shows no mark
  EXPECT_TRUE(lanes.signal_bearers(run, model::Signal::kill));
  EXPECT_TRUE(is_dying(child));
  ::waitpid(child, nullptr, 0);
}

TEST_F(QueueSeats, AStrangersProcessBearsNoMarkAndHasNoLane) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  LocalLanes lanes(directory_);
  char name[] = "/tmp/thole-stranger-XXXXXX";
  const std::string theirs = ::mkdtemp(name);
  const auto pretend = [&](uid_t uid, const std::string& life, mode_t mode) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::mkfifo(life.c_str(), mode);
    const int fd = ::open(life.c_str(), O_RDWR);
    const bool became = ::chmod(life.c_str(), mode) == 0 && ::chown(life.c_str(), uid, uid) == 0 &&
                        (uid == 0 || ::setresuid(uid, uid, uid) == 0);
    if (fd < 0 || !became) ::_exit(2);
    const std::string mark = "THOLE_TASK=1.0.1@" + directory_, queue = "THOLE_QUEUE_DIR=" + directory_;
    char* environment[] = {const_cast<char*>(mark.c_str()), const_cast<char*>(queue.c_str()), nullptr};
    ::execle("/bin/sleep", "sleep", "600", nullptr, environment);
    ::_exit(127);
  };
  const pid_t stranger = pretend(65534, theirs + "/7.life", 0600);
  const pid_t in_the_open = pretend(0, theirs + "/8.life", 0622);
  const pid_t ours = pretend(0, theirs + "/9.life", 0600);
  const auto all_run = [&] {   // of these three: other tests leave children, too
    return std::ranges::all_of(std::array{stranger, in_the_open, ours},
                               [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) == 0; });
  };
  while (lanes.bearers({"1.0.1@" + directory_}).size() < 2 && all_run()) {}
  while (environment_of(stranger).word("THOLE_QUEUE_DIR=") != directory_ && all_run()) {}
  EXPECT_EQ(lanes.bearers({"1.0.1@" + directory_}).size(), 2u);
  const port::RunTrace run{.mark = "1.0.1@" + directory_};
  EXPECT_TRUE(lanes.holders(7, run).empty()) << "a FIFO of a stranger";
  EXPECT_TRUE(lanes.holders(8, run).empty()) << "one that anybody may open";
  EXPECT_EQ(lanes.holders(9, run).size(), 1u);
  EXPECT_TRUE(lanes.holders(9, {.mark = "1.1.1@" + directory_}).empty()) << "it is of another run";
  for (const pid_t child : {stranger, in_the_open, ours}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  std::filesystem::remove_all(theirs);
}

TEST_F(QueueLogs, TasksOfOneBayAreInOneFileOneAfterTheOther) {
  LogFiles logs(directory_ + "/logs");
  const port::LogUse use{12, false, 3, 0, std::nullopt};
  for (const std::string text : {"first", "second one"}) {
    const auto spot = logs.next(use);
    EXPECT_EQ(spot.name, "12/3-0.log");
    const int fd = logs.begin(use, "head\n");
    ASSERT_TRUE(write_all(fd, text));
    EXPECT_EQ(logs.tail(use, 4), text.substr(text.size() - 4));
    const auto length = logs.end(use, "foot\n");
    const std::string whole = *read_file(directory_ + "/logs/" + spot.name);
    EXPECT_EQ(whole.substr(spot.offset, *length), "head\n" + text + "foot\n");
  }
  remove_logs(directory_ + "/logs", 12);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/logs/12"));
}

TEST_F(QueueLogs, TheHoleIsInTheMiddleAndLeavesAboutTheLimit) {
  EXPECT_FALSE(hole_for(0, 1 << 20, 1 << 20));
  EXPECT_FALSE(hole_for(0, 1 << 30, 0));           // no limit
  const auto hole = hole_for(10'000, 8 << 20, 1 << 20);
  ASSERT_TRUE(hole);
  EXPECT_GE(hole->start, 10'000u + (1 << 18));
  EXPECT_LE(hole->start + hole->length, 10'000u + (8 << 20) - (1 << 19));
  EXPECT_EQ(hole->start % 4096, 0u);
  EXPECT_LE((8u << 20) - hole->length, 1u << 20);
}

TEST_F(QueueLogs, ALogThatGrowsIsToldAndCut) {
  LogFiles logs(directory_ + "/logs");
  const port::LogUse use{1, true, 0, 0, 1};
  logs.next(use);
  const int fd = logs.begin(use, "");
  ASSERT_TRUE(write_all(fd, std::string(4 << 20, 'x')));
  pollfd growth{logs.growth(), POLLIN, 0};
  ASSERT_EQ(::poll(&growth, 1, 1000), 1);
  EXPECT_TRUE(logs.trim(std::chrono::steady_clock::now()));   // and looks again later
  struct stat about {};
  ASSERT_EQ(::fstat(fd, &about), 0);
  EXPECT_EQ(about.st_size, 4 << 20);
  EXPECT_LE(about.st_blocks * 512, 1 << 20);
}

}  // namespace
}  // namespace thole::host::queue_tests
