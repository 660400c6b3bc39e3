// The pool of tasks where descriptors run out, and what tasks leave to it.
#include "host/process/task_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "host/process/helpers.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr int looked_at = 256;

std::vector<int> numbers(bool open) {
  std::vector<int> found;
  for (int fd = 0; fd < looked_at; ++fd)
    if ((::fcntl(fd, F_GETFD) >= 0) == open) found.push_back(fd);
  return found;
}

TEST(TaskPool, AStreamThatCannotBeMadeLeavesNoDescriptorOpen) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::pipes, "/tmp");
    port::ProcessSpec spec;
    spec.argv = {"true"};
    const std::vector<int> before = numbers(true);
    const std::size_t bay = pool.open(spec);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit one_pipe_only{static_cast<rlim_t>(numbers(false).at(2)) + 1, limit.rlim_max};   // and one number more
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_pipe_only), 0);
    EXPECT_THROW(pool.start(bay), Error);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    pool.close(bay);
    EXPECT_EQ(numbers(true), before);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(TaskPool, ATaskThatFailsInItsProcessLeavesNoDescriptorOpen) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::ours, "/tmp");
    port::ProcessSpec spec;
    spec.argv = {"true"};
    spec.cwd = "/tmp/no-such-directory";         // after it has got its process, as where it finds no descriptor there
    const std::vector<int> before = numbers(true);
    const std::size_t bay = pool.open(spec);
    EXPECT_THROW(pool.start(bay), Error);
    EXPECT_EQ(numbers(true), before);            // also of a bay that is kept for another
    pool.close(bay);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// What happens to the pool's one bay, until it is of this kind.
// One wait may bring several; what comes behind the one that is waited for is kept.
class Events {
 public:
  explicit Events(EpollPool& pool) : pool_(pool) {}
  port::PoolEvent until(port::PoolEvent::Kind kind) {
    for (;;) {
      for (; at_ < got_.size(); ++at_)
        if (got_[at_].kind == kind) return got_[at_++];
      // Looked at again: nobody tells of a group that was left by setsid().
      const auto next = pool_.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
      got_.assign(next.begin(), next.end());
      at_ = 0;
    }
  }

 private:
  EpollPool& pool_;
  std::vector<port::PoolEvent> got_;
  std::size_t at_ = 0;
};

TEST(TaskPool, AGroupKeepsItsNumberUntilNothingIsSignalledByIt) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::ours, "/tmp");
    Events events(pool);
    port::ProcessSpec spec;
    spec.argv = {"sh", "-c", "sleep 1000 & exit 3"};
    const std::size_t bay = pool.open(spec);
    pool.start(bay);
    const port::PoolEvent end = events.until(port::PoolEvent::Kind::ended);
    EXPECT_EQ(end.how.exit_code, 3);
    ASSERT_TRUE(end.left_group);
    siginfo_t command{};
    ASSERT_EQ(::waitid(P_ALL, 0, &command, WEXITED | WNOHANG | WNOWAIT), 0);
    EXPECT_GT(command.si_pid, 0) << "not waited for: the kernel gives its number to nobody";
    EXPECT_EQ(pool.group(bay).size(), 1u);
    pool.signal(bay, model::Signal::kill);
    events.until(port::PoolEvent::Kind::alone);
    EXPECT_EQ(::waitid(P_ALL, 0, &command, WEXITED | WNOHANG | WNOWAIT), -1) << "nobody is left";
    pool.close(bay);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// A task that runs, and whose output is heard.
struct OneTask {
  explicit OneTask(const char* script) : pool(InheritedSignals::capture(), port::OutputTo::pipes, "/tmp"), events(pool) {
    port::ProcessSpec spec;
    spec.argv = {"sh", "-c", script};
    bay = pool.open(spec);
    pool.start(bay);
  }
  ~OneTask() {
    pool.close(bay);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  pid_t told_number() { return std::stoi(std::string(events.until(port::PoolEvent::Kind::text).bytes)); }

  EpollPool pool;
  Events events;
  std::size_t bay = 0;
};

TEST(TaskPool, WhatIsBelowACommandIsAskedToEndWithItInWhicheverGroup) {
  OneTask task("setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.02; done' & wait");
  const pid_t below = task.told_number();
  task.pool.signal(task.bay, model::Signal::terminate);
  const port::PoolEvent end = task.events.until(port::PoolEvent::Kind::ended);
  EXPECT_EQ(end.how.signal, SIGTERM);
  ASSERT_TRUE(end.left_group) << "it has not heeded TERM, and the task is not over";
  EXPECT_FALSE(task.pool.group(task.bay).empty());
  task.pool.signal(task.bay, model::Signal::kill);
  task.events.until(port::PoolEvent::Kind::alone);
  const auto process = read_process(below);
  EXPECT_TRUE(!process || is_ended_state(process->state));
}

TEST(TaskPool, WhoHasLeftTheTreeBeforeIsAskedNothing) {
  OneTask task("(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000");
  const pid_t daemon = task.told_number();
  const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (read_process(daemon).value().parent != ::getpid()) ASSERT_LT(std::chrono::steady_clock::now(), late);
  task.pool.signal(task.bay, model::Signal::terminate);
  EXPECT_FALSE(task.events.until(port::PoolEvent::Kind::ended).left_group);
  EXPECT_FALSE(is_ended_state(read_process(daemon).value().state));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
}

// Children of this process that have ended and have not been waited for.
std::vector<pid_t> zombies() {
  std::vector<pid_t> ended = listed_children().value();
  std::erase_if(ended, [](pid_t child) {
    siginfo_t how{};
    return ::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0;
  });
  return ended;
}

// A task that has left forty children to us and writes then, and what is to be seen until it ends.
class ManyOrphans {
 public:
  explicit ManyOrphans(const char* start) : pool_(InheritedSignals::capture(), port::OutputTo::pipes, "/tmp"), events_(pool_) {
    port::ProcessSpec spec;
    spec.argv = {"sh", "-c", std::string("for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5; do (") + start +
                                 " & ); done; done; echo all; exec sleep 1000"};
    bay_ = pool_.open(spec);
    pool_.start(bay_);
    events_.until(port::PoolEvent::Kind::text);
  }
  ~ManyOrphans() {
    pool_.close(bay_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  void wait_until_only(const std::vector<pid_t>& left) {
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (listed_children().value().size() != 1 + left.size() || zombies() != left) {
      ASSERT_LT(std::chrono::steady_clock::now(), late) << zombies().size() << " have not been waited for";
      pool_.wait(late);
    }
  }
  void end_task() {
    pool_.signal(bay_, model::Signal::kill);
    const port::PoolEvent end = events_.until(port::PoolEvent::Kind::ended);
    EXPECT_EQ(end.how.signal, SIGKILL) << "its own end is told";
    EXPECT_FALSE(end.left_group);
  }

 private:
  EpollPool pool_;
  Events events_;
  std::size_t bay_ = 0;
};

TEST(TaskPool, WhatATaskLeavesToUsIsWaitedForWhileItRuns) {
  for (const char* start : {"true", "setsid true", "sleep 0.1"}) {
    ManyOrphans task(start);
    task.wait_until_only({});
    task.end_task();
  }
}

TEST(TaskPool, WhatOurOwnHelpersHaveEndedWithIsTheirStarters) {
  pid_t helper = 0;
  {
    const StartingHelper starting;
    helper = ::fork();
    if (helper == 0) ::_exit(7);
    StartingHelper().started(helper);
  }
  ManyOrphans task("true");
  task.wait_until_only({helper});
  int status = 0;
  EXPECT_EQ(::waitpid(helper, &status, 0), helper);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  helper_ended(helper);
  task.end_task();
}

TEST(TaskPool, WhatIsGivenUpIsNobodysStrayAndIsWaitedForAtItsEnd) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::files, "/tmp");
    Events events(pool);
    port::ProcessSpec spec;
    spec.argv = {"sh", "-c", "sleep 1000 & exit 3"};
    const std::size_t bay = pool.open(spec);
    pool.start(bay);
    ASSERT_TRUE(events.until(port::PoolEvent::Kind::ended).left_group);
    EXPECT_TRUE(pool.out_of_reach().empty());
    pool.give_up(bay);
    EXPECT_TRUE(pool.group(bay).empty());
    EXPECT_TRUE(pool.strays({"claim"}).none());
    pool.end_strays({"", {"claim"}}, model::Signal::kill);
    const std::vector<pid_t> left = listed_children().value();
    ASSERT_EQ(left.size(), 1u) << "the command is waited for, what it has left lives";
    ASSERT_TRUE(zombies().empty());
    pool.take_output(bay);
    pool.close(bay);
    ::kill(left.front(), SIGKILL);
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!listed_children().value().empty() && std::chrono::steady_clock::now() < late) pool.wait(late);
    EXPECT_LT(std::chrono::steady_clock::now(), late) << "it is not waited for";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(TaskPool, ACommandThatIsGivenUpRunsOn) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::pipes, "/tmp");
    port::ProcessSpec spec;
    spec.argv = {"sleep", "1000"};
    const std::size_t bay = pool.open(spec);
    pool.start(bay);
    pool.give_up(bay);
    EXPECT_TRUE(pool.strays({}).none());
    pool.close(bay);
    ASSERT_EQ(listed_children().value().size(), 1u);
    ::kill(listed_children().value().front(), SIGKILL);
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!listed_children().value().empty() && std::chrono::steady_clock::now() < late)
      EXPECT_TRUE(pool.wait(late).empty()) << "its end is nobody's";
    EXPECT_LT(std::chrono::steady_clock::now(), late);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// What one claim's task has left in a session of its own.
TEST(TaskPool, ALookForOneClaimDoesNotKeepTheEndOfAnothersFromBeingTold) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::ours, "/tmp");
    Events events(pool);
    port::ProcessSpec spec;
    spec.argv = {"setsid", "--fork", "sleep", "1000"};
    spec.set = {{"THOLE_CLAIM", "first/inner"}};
    const std::size_t bay = pool.open(spec);
    pool.start(bay);
    if (events.until(port::PoolEvent::Kind::ended).left_group) events.until(port::PoolEvent::Kind::alone);
    pool.close(bay);
    const port::Strays left = pool.strays({"second", "first"});
    EXPECT_TRUE(left.of.size() == 1 && left.of.contains("first") && left.nobodys.empty() && !left.unknown);
    EXPECT_EQ(pool.strays({"second"}).nobodys.size(), 1u);
    EXPECT_FALSE(pool.strays({"second"}).unknown) << "it shows a claim";
    pool.end_strays({"first"}, model::Signal::kill);
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!pool.strays({"second"}).none() && std::chrono::steady_clock::now() < late) pool.wait(late);
    EXPECT_LT(std::chrono::steady_clock::now(), late) << "its end has not been told";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(TaskPool, AStrayThatIsGivenUpIsNoneAnyMoreAndLivesOn) {
  {
    EpollPool pool(InheritedSignals::capture(), port::OutputTo::ours, "/tmp");
    Events events(pool);
    port::ProcessSpec spec;
    spec.argv = {"setsid", "--fork", "sleep", "1000"};
    const std::size_t bay = pool.open(spec);
    pool.start(bay);
    if (events.until(port::PoolEvent::Kind::ended).left_group) events.until(port::PoolEvent::Kind::alone);
    pool.close(bay);
    ASSERT_EQ(pool.strays({"claim"}).nobodys.size(), 1u);
    pool.give_up_strays({"", {"claim"}});
    EXPECT_TRUE(pool.strays({"claim"}).none());
    pool.end_strays({"", {"claim"}}, model::Signal::kill);
    const std::vector<pid_t> left = listed_children().value();
    ASSERT_EQ(left.size(), 1u);
    ASSERT_TRUE(zombies().empty());
    ::kill(left.front(), SIGKILL);
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!listed_children().value().empty() && std::chrono::steady_clock::now() < late) pool.strays({"claim"});
    EXPECT_LT(std::chrono::steady_clock::now(), late) << "it is not waited for";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace thole::host
