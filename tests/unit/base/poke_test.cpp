#include "base/poke.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/fd.hpp"
#include "base/stream.hpp"

namespace thole {
namespace {

TEST(Poke, WakesTheReader) {
  const Pipe pipe = make_pipe();
  EXPECT_TRUE(poke(pipe.write.get()));
  EXPECT_TRUE(is_readable(pipe.read.get()));
}

TEST(Poke, AFullFifoIsAsGood) {
  const Pipe pipe = make_pipe();
  ASSERT_EQ(::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK), 0);
  for (int i = 0; i < 70'000; ++i) ASSERT_TRUE(poke(pipe.write.get()));
}

TEST(Poke, AReaderThatHasGoneDoesNotEndUs) {
  Pipe pipe = make_pipe();
  pipe.read.reset();
  EXPECT_FALSE(poke(pipe.write.get()));
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

}  // namespace
}  // namespace thole
