// Tasks of one lane: what is left behind where nobody can say by whom.
#include "host/process/local_commands.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include "app/queue/task_lives.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/clock/system_clock.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

// The lives of a lane's tasks, as processes.
class Keeper : public app::TaskLives {
 public:
  Keeper() : TaskLives(std::make_unique<LocalCommands>(inherited_, LocalCommands::Runs::in_background), clock_) {}

 private:
  static inline const InheritedSignals inherited_ = InheritedSignals::capture();
  static inline const SystemClock clock_{};
};

TEST(LocalCommands, OfTasksThatEndAtOnceTheLastAnswersForWhatShowsNoMark) {
  const claim_tests::TemporaryFolder folder;
  const std::string gate = folder.path + "/gate", number = folder.path + "/number";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  {
    Keeper keeper;
    port::ProcessSpec spec;
    const auto start = [&](unsigned bay, const std::string& code) {
      spec.argv = {"sh", "-c", code + "read line < " + gate};
      spec.own_group = true;
      port::TaskRun run;
      run.bay = bay;
      spec.set["THOLE_TASK"] = "of this test " + std::to_string(bay);
      return keeper.start(spec, run);
    };
    const std::string daemon = "echo $$ > " + number + ".new; mv " + number + ".new " + number + "; exec sleep 1000";
    const std::vector<pid_t> tasks{
        start(0, ""), start(1, "env -i PATH=\"$PATH\" setsid sh -c '" + daemon + "' > /dev/null 2>&1 < /dev/null & ")};
    std::optional<std::uint64_t> left;
    while (!left) left = parse_u64(trim(read_file(number).value_or("")));
    {
      const Fd open = open_at(AT_FDCWD, gate.c_str(), O_WRONLY);
      ASSERT_TRUE(write_all(open.get(), "on\non\n"));
    }
    for (const pid_t task : tasks) {
      siginfo_t ended{};
      ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(task), &ended, WEXITED | WNOWAIT), 0);
    }
    std::size_t over = 0;
    bool named = false;
    while (over < tasks.size())
      for (const port::TaskOver& task : keeper.wait({}, std::nullopt)) {
        ++over;
        named = named || !task.ended.left_behind.empty();
      }
    EXPECT_TRUE(named);
    EXPECT_EQ(::kill(static_cast<pid_t>(*left), 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// As Ctrl-C would not: but it is the command that is to end.
TEST(LocalCommands, ACommandThatHasLeftItsGroupHearsINTFirst) {
  const claim_tests::TemporaryFolder folder;
  const std::string ready = folder.path + "/ready";
  ASSERT_EQ(::mkfifo(ready.c_str(), 0600), 0);
  {
    Keeper keeper;
    port::ProcessSpec spec;
    spec.own_group = true;
    spec.argv = {"python3", "-c", "import os, signal, sys\n"
                 "signal.signal(signal.SIGINT, lambda *_: os._exit(7))\n"
                 "os.setpgid(0, os.getpgid(os.getppid()))\n"
                 "open(sys.argv[1], 'w').close()\n"
                 "while True: signal.pause()", ready};
    port::TaskRun run;
    spec.set["THOLE_TASK"] = "of this test";
    run.patience = Millis{60'000};
    keeper.start(spec, run);
    { const Fd is_ready = open_at(AT_FDCWD, ready.c_str(), O_RDONLY); }
    keeper.tell(0, port::StopTask{});
    std::vector<port::TaskOver> over;
    while (over.empty()) over = keeper.wait({}, std::nullopt);
    EXPECT_EQ(over.at(0).ended.exit_code, 7);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// A machine that goes down ends everything, the command perhaps before its lane hears of it.
TEST(LocalCommands, WhatEndsByASignalOfNobodysWasTakenDownWhereItsLaneIsToldToEndAtThatTime) {
  {
    Keeper keeper;
    port::ProcessSpec spec;
    spec.own_group = true;
    spec.argv = {"sleep", "1000"};
    const auto killed = [&](unsigned bay, int signal) {
      port::TaskRun run;
      run.bay = bay;
      spec.set["THOLE_TASK"] = fmt::format("of this test {}", bay);
      const pid_t pid = keeper.start(spec, run);
      ::kill(pid, signal);
      siginfo_t ended{};
      EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
    };
    const auto end_of_one = [&] {
      std::vector<port::TaskOver> over;
      while (over.empty()) over = keeper.wait({}, std::nullopt);
      return over.at(0);
    };
    killed(0, SIGTERM);
    EXPECT_FALSE(end_of_one().taken_down) << "it alone was meant";
    EXPECT_FALSE(keeper.told_to_end());
    killed(1, SIGKILL);
    EXPECT_TRUE(keeper.wait({}, SteadyTime{}).empty()) << "nobody is told of it yet";
    ::raise(SIGTERM);
    const port::TaskOver over = end_of_one();
    EXPECT_TRUE(over.taken_down);
    EXPECT_EQ(over.ended.signal, SIGKILL);
    EXPECT_TRUE(keeper.told_to_end());
    killed(2, SIGTERM);
    EXPECT_TRUE(end_of_one().taken_down) << "afterwards, too";
    killed(3, SIGSEGV);
    EXPECT_FALSE(end_of_one().taken_down) << "this is its own";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// It holds its lane's GPUs for no moment longer, and is what was asked for.
TEST(LocalCommands, WhatWeEndOurselvesIsNotTakenDown) {
  {
    Keeper keeper;
    port::ProcessSpec spec;
    spec.own_group = true;
    spec.argv = {"sh", "-c", "trap '' INT; while :; do sleep 1000; done"};
    port::TaskRun run;
    spec.set["THOLE_TASK"] = "of this test";
    run.patience = Millis{1};
    keeper.start(spec, run);
    ::raise(SIGTERM);
    keeper.tell(0, port::StopTask{});
    std::vector<port::TaskOver> over;
    while (over.empty()) over = keeper.wait({}, std::nullopt);
    EXPECT_TRUE(over.at(0).cancelled);
    EXPECT_FALSE(over.at(0).taken_down);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace thole::host
