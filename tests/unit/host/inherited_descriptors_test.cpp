#include "host/process/inherited_descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/process/detached.hpp"

namespace thole::host {
namespace {

bool holds(const std::vector<int>& descriptors, int fd) { return std::ranges::find(descriptors, fd) != descriptors.end(); }

TEST(InheritedDescriptors, AreThoseThatAProgramStartedHereWouldGet) {
  const Pipe pipe = make_pipe();
  const Fd given(::fcntl(pipe.read.get(), F_DUPFD, 3));
  const std::vector<int> inherited = inherited_descriptors();
  EXPECT_TRUE(holds(inherited, given.get()));
  EXPECT_FALSE(holds(inherited, pipe.read.get()));
  for (int standard : {0, 1, 2}) EXPECT_FALSE(holds(inherited, standard));
}

TEST(InheritedDescriptors, TheRunnerOfAQueueGetsNone) {
  const Pipe pipe = make_pipe();
  const Fd given(::fcntl(pipe.read.get(), F_DUPFD, 100));
  const auto succeeds_where = [&](const char* is) {
    return BareCommand{{"/bin/sh", "-c", fmt::format("[ {} -e /proc/$$/fd/{} ]", is, given.get())}, {}};
  };
  EXPECT_NO_THROW(run_detached(succeeds_where("!")));
  EXPECT_THROW(run_detached(succeeds_where("")), Error);
}

}  // namespace
}  // namespace thole::host
