// The pool of tasks where descriptors run out.
#include "host/process/task_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

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

}  // namespace
}  // namespace thole::host
