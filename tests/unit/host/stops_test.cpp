// Ctrl-Z at a moment when a child has not begun its program, and a CONT that comes before the stop is obeyed.
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

#include "base/stop_self.hpp"
#include "host/process/foreground.hpp"
#include "host/process/local_commands.hpp"
#include "host/process/task_pool.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

using claim_tests::Child;

// In a process group of its own, all signals blocked.
class Group : public Child {
 public:
  explicit Group(const std::function<int(Child&, const InheritedSignals&)>& body)
      : Child([body](Child& self) {
          const InheritedSignals inherited = InheritedSignals::capture();
          const AllSignalsBlocked blocked;
          ::setpgid(0, 0);
          self.say('g');
          return body(self, inherited);
        }) {
    EXPECT_EQ(hear(), 'g');
  }
  ~Group() { ::kill(-pid(), SIGKILL); }          // with who has not left it

  // Its exit status; -1: it has stopped.
  int end_or_stop() {
    siginfo_t how{};
    if (::waitid(P_PID, static_cast<id_t>(pid()), &how, WEXITED | WSTOPPED | WNOWAIT) != 0) return -2;
    return how.si_code == CLD_STOPPED ? -1 : how.si_status;
  }
};

// Ctrl-Z, over and over: also in the moment between a child's birth and its program.
class CtrlZ : public Child {
 public:
  explicit CtrlZ(pid_t group)
      : Child([group](Child&) {
          while (::kill(-group, SIGTSTP) == 0) {}
          return 0;
        }) {}
};

port::ProcessSpec sleeper() {
  port::ProcessSpec spec;
  spec.argv = {"sleep", "1000"};
  return spec;
}

TEST(Stops, CtrlZStopsNoTaskBeforeItsProgramRuns) {
  Group group([](Child& self, const InheritedSignals& inherited) {
    EpollPool pool(inherited, port::OutputTo::ours, "/tmp");
    port::ProcessSpec spec;
    spec.argv = {"true"};
    const std::size_t bay = pool.open(spec);
    self.hear();
    for (int task = 0; task < 100; ++task) {
      pool.start(bay);
      for (bool ended = false; !ended;)
        for (const port::PoolEvent& event : pool.wait(std::nullopt))
          ended = ended || (event.kind == port::PoolEvent::Kind::ended && event.how.exit_code == 0);
    }
    self.say('t');
    return 0;
  });
  const CtrlZ keys(group.pid());
  group.say('k');
  EXPECT_EQ(group.hear(), 't');
}

// Its first command stays in our group: what came before its program has stopped it by now, as it would have stopped any other.
TEST(Stops, CtrlZStopsTheCommandOfARunOnceItsProgramRuns) {
  for (int time = 0; time < 20 && !HasFailure(); ++time) {
    Group group([](Child& self, const InheritedSignals& inherited) {
      LocalCommands commands(inherited, LocalCommands::Runs::in_foreground);
      self.hear();
      const pid_t command = commands.start(0, sleeper());
      self.say('s');
      siginfo_t stopped{};
      ::waitid(P_PID, static_cast<id_t>(command), &stopped, WSTOPPED | WNOWAIT);
      self.say(stopped.si_status == SIGTSTP ? 't' : 'o');
      return 0;
    });
    const CtrlZ keys(group.pid());
    group.say('k');
    EXPECT_EQ(group.hear(), 's');
    EXPECT_EQ(group.hear(), 't');
  }
}

TEST(Stops, CtrlZWhileTheCommandWasBeingStartedStopsIt) {
  Group group([](Child& self, const InheritedSignals& inherited) {
    LocalCommands commands(inherited, LocalCommands::Runs::in_foreground);
    ::kill(::getpid(), SIGTSTP);
    const pid_t command = commands.start(0, sleeper());
    siginfo_t stopped{};
    ::waitid(P_PID, static_cast<id_t>(command), &stopped, WSTOPPED | WNOWAIT);
    self.say(stopped.si_status == SIGTSTP ? 't' : 'o');
    return 0;
  });
  EXPECT_EQ(group.hear(), 't');
}

TEST(Stops, WhatIsContinuedBeforeItHasStoppedDoesNotStop) {
  Group self([](Child&, const InheritedSignals&) {
    ::kill(::getpid(), SIGCONT);
    return stop_self(SIGTSTP) && stop_self(SIGSTOP) ? 3 : 4;
  });
  EXPECT_EQ(self.end_or_stop(), 3);
  Group pool([](Child&, const InheritedSignals& inherited) {
    EpollPool tasks(inherited, port::OutputTo::ours, "/tmp");
    ::kill(::getpid(), SIGTSTP);
    if (tasks.wait(std::nullopt).size() != 1) return 4;   // it has been read …
    ::kill(::getpid(), SIGCONT);                 // … and this comes before it is obeyed
    tasks.stop_all();
    return 3;
  });
  EXPECT_EQ(pool.end_or_stop(), 3);
}

TEST(Stops, AStopThatIsPassedOnDoesNotOvertakeTheContinuation) {
  Group group([](Child&, const InheritedSignals& inherited) {
    Foreground foreground(inherited);
    foreground.begin();                          // whose witness has not seen a stop any more, as after a CONT
    Pipe gate = make_pipe();
    const pid_t command = ::fork();
    if (command == 0) {
      inherited.restore(SIG_DFL);
      gate.write.reset();
      char end = 0;
      ::_exit(::read(gate.read.get(), &end, 1) == 0 ? 5 : 6);
    }
    ::kill(::getpid(), SIGCONT);
    signalfd_siginfo stop{};
    stop.ssi_signo = SIGTSTP;
    std::vector<port::CommandEvent> events;
    foreground.take(stop, command, events);
    gate.write.reset();
    int status = 0;
    ::waitpid(command, &status, WUNTRACED);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 7;
  });
  EXPECT_EQ(group.end_or_stop(), 5);
}

}  // namespace
}  // namespace thole::host
