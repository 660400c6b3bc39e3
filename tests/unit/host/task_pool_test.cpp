// The pool of tasks where descriptors run out.
#include "host/process/task_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

#include "base/error.hpp"

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
    const std::size_t place = pool.open(spec);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit one_pipe_only{static_cast<rlim_t>(numbers(false).at(2)) + 1, limit.rlim_max};   // and one number more
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_pipe_only), 0);
    EXPECT_THROW(pool.start(place), Error);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    pool.close(place);
    EXPECT_EQ(numbers(true), before);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// What happens to the pool's one place, until it is of this kind.
// One turn may bring several; what comes behind the one that is waited for is kept.
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
    const std::size_t place = pool.open(spec);
    pool.start(place);
    const port::PoolEvent end = events.until(port::PoolEvent::Kind::ended);
    EXPECT_EQ(end.how.exit_code, 3);
    ASSERT_TRUE(end.left_group);
    siginfo_t command{};
    ASSERT_EQ(::waitid(P_ALL, 0, &command, WEXITED | WNOHANG | WNOWAIT), 0);
    EXPECT_GT(command.si_pid, 0) << "not waited for: the kernel gives its number to nobody";
    EXPECT_EQ(pool.group(place).size(), 1u);
    pool.signal(place, SIGKILL);
    events.until(port::PoolEvent::Kind::alone);
    EXPECT_EQ(::waitid(P_ALL, 0, &command, WEXITED | WNOHANG | WNOWAIT), -1) << "nobody is left";
    pool.close(place);
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
    const std::size_t place = pool.open(spec);
    pool.start(place);
    if (events.until(port::PoolEvent::Kind::ended).left_group) events.until(port::PoolEvent::Kind::alone);
    pool.close(place);
    const port::Strays left = pool.strays({"second", "first"});
    EXPECT_TRUE(left.of.size() == 1 && left.of.contains("first") && left.nobodys.empty() && !left.unknown);
    EXPECT_EQ(pool.strays({"second"}).nobodys.size(), 1u);
    EXPECT_FALSE(pool.strays({"second"}).unknown) << "it shows a claim";
    pool.end_strays({"first"}, SIGKILL);
    const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!pool.strays({"second"}).none() && std::chrono::steady_clock::now() < late) pool.wait(late);
    EXPECT_LT(std::chrono::steady_clock::now(), late) << "its end has not been told";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace thole::host
