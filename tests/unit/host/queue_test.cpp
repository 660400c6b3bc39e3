// Seats, records and logs of a queue's processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "base/fd.hpp"
#include "base/stream.hpp"
#include "host/queue/local_door.hpp"
#include "host/queue/local_lanes.hpp"
#include "host/process/tree.hpp"
#include "host/queue/log_files.hpp"
#include "host/queue/runner_seat.hpp"
#include "host/surroundings/logout.hpp"
#include "support/failing_calls.hpp"
#include "support/said.hpp"
#include "test_folders.hpp"

namespace thole::host {
namespace {

class QueueFileTest : public testing::Test {
 protected:
  QueueFileTest() {
    char name[] = "/tmp/thole-queue-XXXXXX";
    directory_ = ::mkdtemp(name);
    QueueFiles(directory_).make();
  }
  ~QueueFileTest() override {
    while (const auto runner = LocalDoor(directory_, {}).runner()) {
      const Fd end = open_pidfd(*runner);
      ::kill(*runner, SIGKILL);
      if (end) is_ended_by(end, std::nullopt);
    }
    std::filesystem::remove_all(directory_);
  }

  // A runner that notes each start, and then does what the script says; by itself it sits down and does nothing.
  RunnerCommand runner(const std::string& before = "") const {
    const std::string script =
        "echo x >> " + directory_ + "/starts; " + before + " exec " THOLE_BINARY_DIR "/fake/fake_runner " + directory_;
    return {{"/bin/sh", "-c", script}, {"PATH=" + std::string(::getenv("PATH"))}};
  }
  std::string starts() const { return read_file(directory_ + "/starts", 1000).value_or(""); }

  std::string directory_;
};

// A child that does `work`, with the writing end of a pipe to say that it is at it, and then sleeps until it is killed.
pid_t child_that(const std::function<void()>& work) {
  Pipe up = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    up.read.reset();
    work();
    static_cast<void>(write_all(up.write.get(), "x"));
    for (;;) ::pause();
  }
  up.write.reset();
  char byte;
  EXPECT_EQ(::read(up.read.get(), &byte, 1), 1);
  return child;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The names of what a process has open.
std::vector<std::string> open_files_of(pid_t pid) {
  std::vector<std::string> names;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone))
    names.push_back(std::filesystem::read_symlink(entry.path(), gone).string());
  return names;
}

using QueueSeats = QueueFileTest;
using QueueLogs = QueueFileTest;

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
    is_ended_by(ended, std::nullopt);
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
  lanes.signal_bearers({"1.0.1@" + directory_}, SIGKILL);
  pollfd end{found.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 5000), 1);
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
  while (!has_word(stranger, "THOLE_QUEUE_DIR=" + directory_) && all_run()) {}
  EXPECT_EQ(lanes.bearers({"1.0.1@" + directory_}).size(), 2u);
  EXPECT_TRUE(lanes.holders(7).empty()) << "a FIFO of a stranger";
  EXPECT_TRUE(lanes.holders(8).empty()) << "one that anybody may open";
  EXPECT_EQ(lanes.holders(9).size(), 1u);
  for (const pid_t child : {stranger, in_the_open, ours}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  std::filesystem::remove_all(theirs);
}

TEST_F(QueueLogs, TasksOfOnePlaceAreInOneFileOneAfterTheOther) {
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

TEST(QueueRunner, AKilledProcessIsDyingFromTheSignalOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_FALSE(is_dying(child));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(is_dying(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_dying(child));
}

TEST(QueueRunner, AProcessThatCannotBeLookedAtIsNotTakenForADyingOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool dying = is_dying(::getpid());
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(dying);
}

// Without a descriptor to look with nobody is gone: a run that lives would be begun again.
TEST_F(QueueSeats, WhoCannotBeLookedAtIsNotCountedAsGone) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  const auto lane = lanes.take(0, 1);
  const std::map<std::string, std::function<void()>> looks = {
      {"lanes", [&] { lanes.look(); }},
      {"a lane", [&] { lanes.look_at(0); }},
      {"bearers", [&] { lanes.bearers({"no such mark"}); }},
      {"holders", [&] { lanes.holders(0); }},
      {"the seat", [&] { look_at_seat(directory_ + "/runner"); }},
      {"the boot", [] { known_boot_id(); }},
  };
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  std::map<std::string, std::string> said;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const auto& [what, look] : looks) said[what] = test::said(look);
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const auto& [what, error] : said) EXPECT_NE(error, "nothing was thrown") << what;
}

// Becomes a process of which no more runs than one thread that never ends: to look at it is dying, and it does not end.
[[noreturn]] void become_undead() {
  std::thread([] { for (;;) ::pause(); }).detach();
  ::syscall(SYS_exit, 0);
  std::abort();
}

pid_t undead_runner(const std::string& directory) {
  const pid_t undead = ::fork();
  if (undead == 0) {
    static auto seat = LocalLanes(directory).sit();
    become_undead();
  }
  while (!is_dying(undead)) ::sched_yield();
  return undead;
}

TEST_F(QueueSeats, ARunnerThatWasKilledAndCannotEndKeepsNobody) {
  const pid_t undead = undead_runner(directory_);
  LocalDoor door(directory_, {{"/bin/true"}, {}}, Millis{100});
  EXPECT_FALSE(door.runner());
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("cannot end"));
  end(undead);
}

// It would have left, and those who have told it something would have nobody.
TEST_F(QueueSeats, WhoFindsTheSeatWithADyingRunnerListensToNobodyAndTakesItAfterwards) {
  const pid_t undead = undead_runner(directory_);
  const pid_t next = ::fork();
  if (next == 0) ::_exit(LocalLanes(directory_).sit() ? 0 : 1);
  const auto has_open = [&](std::string_view what) {
    return std::ranges::any_of(open_files_of(next), [&](const std::string& name) { return name.find(what) != name.npos; });
  };
  int status = -1;
  while (!has_open("[pidfd]") && ::waitpid(next, &status, WNOHANG) == 0) ::sched_yield();   // it waits for that one's end
  ASSERT_EQ(status, -1) << "it has left";
  EXPECT_FALSE(has_open("/wake"));
  EXPECT_FALSE(has_open("/runner"));
  end(undead);
  ASSERT_EQ(::waitpid(next, &status, 0), next);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Somebody has removed the file under a runner that makes it again, and still has the FIFO.
TEST_F(QueueSeats, ARunnerWhoseLockWasRemovedIsWaitedFor) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  std::filesystem::remove(directory_ + "/runner");
  const pid_t teller = ::fork();
  if (teller == 0) {
    LocalDoor(directory_, runner(), Millis{60'000}).stir();
    ::_exit(0);
  }
  while (!is_readable(seat->wake.get())) ::sched_yield();   // it tells whoever listens, and looks who has the seat
  EXPECT_EQ(starts(), "");
  EXPECT_TRUE(lanes.keep(*seat));
  int status = -1;
  ::waitpid(teller, &status, 0);
  EXPECT_EQ(status, 0);   // one that it started between the file and its lock has found us there, and left
}

// A record lock goes with any descriptor of its file that its process closes.
TEST_F(QueueSeats, TheRunnerKeepsItsLockWhateverItDoesWithTheFile) {
  const std::string file = directory_ + "/runner", aside = directory_ + "/aside";
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  ASSERT_TRUE(seat);
  LocalDoor door(directory_, runner());
  // What another process sees.
  const auto is_kept = [&] {
    const pid_t other = ::fork();
    if (other == 0) {
      const SeatLook look = look_at_seat(file);
      ::_exit(look.state == SeatLook::kept && look.pid == ::getppid() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(other, &status, 0);
    return status == 0;
  };
  ASSERT_TRUE(is_kept());
  const std::map<std::string, std::function<void()>> ways = {
      {"keep", [&] { EXPECT_TRUE(lanes.keep(*seat)); }},
      {"keep, of a file that cannot be looked at",
       [&] { test::where_no_path_can_be_seen(ENOMEM, [&] { EXPECT_TRUE(lanes.keep(*seat)); }); }},
      // It was away when it was looked at, and is there again when it is opened.
      {"take again", [&] { EXPECT_TRUE(take_seat(file, seat->lock)); }},
      {"away and back", [&] {
         std::filesystem::rename(file, aside);
         std::filesystem::rename(aside, file);
         EXPECT_TRUE(lanes.keep(*seat));
       }},
      {"sit", [&] { EXPECT_FALSE(lanes.sit()); }},
      {"look", [&] { EXPECT_EQ(look_at_seat(file).pid, ::getpid()); }},
      {"check", [&] { check_seat(file); }},
      {"runner", [&] { EXPECT_EQ(door.runner(), ::getpid()); }},
      {"runner_end", [&] { EXPECT_TRUE(door.runner_end()); }},
      {"stir", [&] { door.stir(); }},
      {"look at lanes", [&] { lanes.look(); }},
      {"fork", [&] {
         const pid_t lane = lanes.fork(*lanes.take(0, 1), *seat, [](port::LaneSeat&) { return 0; });
         ::waitpid(lane, nullptr, 0);
       }},
      {"removed", [&] {
         std::filesystem::remove(file);
         EXPECT_TRUE(lanes.keep(*seat));
       }},
  };
  for (const auto& [way, does] : ways) {
    does();
    EXPECT_TRUE(is_kept()) << way;
  }
  EXPECT_EQ(starts(), "");
  seat.reset();
  EXPECT_EQ(look_at_seat(file).state, SeatLook::empty);
}

// Somebody has removed its FIFO, and it does not see it.
TEST_F(QueueSeats, ARunnerThatDoesNotListenIsToldOf) {
  const pid_t deaf = child_that([&] { static auto seat = LocalLanes(directory_).sit(); });
  std::filesystem::remove(directory_ + "/wake");
  LocalDoor door(directory_, runner(), Millis{100});
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("does not listen"));
  EXPECT_EQ(starts(), "") << "it could not sit";
  end(deaf);
}

TEST_F(QueueSeats, AnOrderForALaneThatWasKilledGoesToTheRunnerThoughSomebodyHasItsMail) {
  const auto seat = LocalLanes(directory_).take(0, 1);
  seat->record->pid = ::getpid();
  LocalDoor door(directory_, runner(), Millis{60'000});
  door.nudge(0);
  EXPECT_TRUE(is_readable(seat->mail.get()));
  EXPECT_EQ(starts(), "");
  const pid_t lane = child_that([] {});
  seat->record->pid = lane;
  end(lane);
  door.nudge(0);
  EXPECT_EQ(starts(), "x\n");
}

// The runner notes that it was started, and sits when its starter has gone.
TEST_F(QueueSeats, OfManyWhoFindNoRunnerOneStartsIt) {
  QueueFiles(directory_).open_wake();                      // made; nobody reads it
  std::atomic<unsigned> told = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 20; ++i)
    waiters.emplace_back([&] {
      LocalDoor(directory_, runner(), Millis{60'000}).stir();
      ++told;
    });
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told, 20u);
  EXPECT_EQ(starts(), "x\n");
}

// Its end is seen; a day would not be waited for it.
TEST_F(QueueSeats, ARunnerThatEndsAtOnceIsToldOf) {
  const RunnerCommand runner{{"/bin/sh", "-c", "true & echo $! >&0; wait"}, {"PATH=" + std::string(::getenv("PATH"))}};
  LocalDoor door(directory_, runner, Millis{24 * 3600 * 1000});
  EXPECT_THAT(test::said([&] { door.stir(); }),
              testing::AllOf(testing::HasSubstr("ended at once"), testing::HasSubstr(directory_ + "/runner.log")));
}

TEST_F(QueueSeats, WhatIsNoFifoIsNobodyThatListens) {
  std::ofstream(directory_ + "/wake") << "x";
  const QueueFiles files(directory_);
  EXPECT_FALSE(files.watch_runner());
  EXPECT_FALSE(files.tell_runner());
  EXPECT_THAT(test::said([&] { files.open_wake(); }), testing::HasSubstr("this is no FIFO"));
  EXPECT_EQ(read_file(directory_ + "/wake", 10).value_or(""), "x");
}

// A starter that was stopped keeps nobody for long.
TEST_F(QueueSeats, WhoIsStoppedWhileHeStartsARunnerKeepsNobodyForEver) {
  const Fd stopped = QueueFiles(directory_).open_start();
  ASSERT_EQ(::flock(stopped.get(), LOCK_EX | LOCK_NB), 0);
  LocalDoor door(directory_, {{"/bin/sh", "-c", "echo x >> " + directory_ + "/starts"}, {}}, Millis{100});
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("does not come up"));
  EXPECT_EQ(read_file(directory_ + "/starts", 1000).value_or(""), "x\n");
}

TEST(QueueRunner, SettingsOfLogindAreReadAsItReadsThem) {
  EXPECT_FALSE(ends_with_the_session(""));
  EXPECT_FALSE(ends_with_the_session("[Login]\n#KillUserProcesses=yes\n"));
  EXPECT_TRUE(ends_with_the_session("[Login]\nKillUserProcesses=yes\n"));
  EXPECT_FALSE(ends_with_the_session("KillUserProcesses=yes\nKillUserProcesses=no\n"));
}

TEST(Logout, IsReadFromLogindsFilesAndTheUsersMark) {
  std::string root = std::filesystem::temp_directory_path() / "thole_logout_XXXXXX";
  ASSERT_TRUE(::mkdtemp(root.data()));
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + name).parent_path());
    std::ofstream(root + name) << text;
  };
  const Tree tree(root);
  EXPECT_FALSE(read_logout(tree, "anna").logind);
  put("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n");
  put("/etc/systemd/logind.conf.d/10-lab.conf", "[Login]\nKillUserProcesses=yes\n");
  EXPECT_FALSE(read_logout(tree, "anna").ends_all) << "nobody reads them here";
  put("/run/systemd/seats/seat0", "");
  EXPECT_TRUE(read_logout(tree, "anna").ends_all);
  put("/etc/systemd/logind.conf.d/20-later.conf", "[Login]\nKillUserProcesses=no\n");
  EXPECT_FALSE(read_logout(tree, "anna").ends_all);
  put("/var/lib/systemd/linger/anna", "");
  EXPECT_TRUE(read_logout(tree, "anna").lingers);
  EXPECT_FALSE(read_logout(tree, "ann").lingers);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace thole::host
