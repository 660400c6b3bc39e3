#include "base/stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <limits>

#include "base/fd.hpp"

namespace thole {
namespace {

TEST(Stream, ReadsAPipeToItsEnd) {
  Pipe pipe = make_pipe();
  EXPECT_TRUE(write_all(pipe.write.get(), "one\ntwo"));
  pipe.write.reset();
  EXPECT_EQ(read_all(pipe.read.get(), 100), "one\ntwo");
  EXPECT_EQ(read_all(pipe.read.get(), 100), "");
}

TEST(Stream, ReadsNoMoreThanItIsAllowed) {
  Pipe pipe = make_pipe();
  EXPECT_TRUE(write_all(pipe.write.get(), "one\ntwo"));
  EXPECT_EQ(read_all(pipe.read.get(), 4), "one\n") << "and does not wait for the rest";
}

TEST(Stream, DrainsWhatAPipeUsuallyTakesAndNoMore) {
  Pipe pipe = make_pipe();
  ASSERT_EQ(::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_FALSE(drain(pipe.read.get()));
  ASSERT_GE(::fcntl(pipe.write.get(), F_SETPIPE_SZ, 1 << 17), 1 << 17);
  EXPECT_TRUE(write_all(pipe.write.get(), std::string(1 << 16, '!')));
  EXPECT_TRUE(drain(pipe.read.get()));
  EXPECT_FALSE(is_readable(pipe.read.get()));
  EXPECT_TRUE(write_all(pipe.write.get(), std::string((1 << 16) + 1, '!')));
  EXPECT_TRUE(drain(pipe.read.get()));
  EXPECT_TRUE(is_readable(pipe.read.get())) << "who writes faster than we read would keep us here";
}

TEST(Stream, SaysWhyItCannotRead) {
  Pipe pipe = make_pipe();
  EXPECT_FALSE(read_all(pipe.write.get(), 4));
  EXPECT_EQ(errno, EBADF);
}

TEST(Stream, IsReadableWhenThereIsSomethingOrTheEnd) {
  Pipe pipe = make_pipe();
  EXPECT_FALSE(is_readable(pipe.read.get()));
  EXPECT_TRUE(write_all(pipe.write.get(), "x"));
  EXPECT_TRUE(is_readable(pipe.read.get()));
  EXPECT_EQ(read_all(pipe.read.get(), 1), "x");
  EXPECT_FALSE(is_readable(pipe.read.get()));
  pipe.write.reset();
  EXPECT_TRUE(is_readable(pipe.read.get()));
}

TEST(Stream, APollEndsAtTheDeadlineOrAMomentAfterNeverBefore) {
  using namespace std::chrono;
  const SteadyTime now{hours(1)};
  struct { std::optional<SteadyTime> deadline; int timeout; } const cases[] = {
      {std::nullopt, -1}, {now, 0}, {now - hours(1), 0}, {now + nanoseconds(1), 1}, {now + Millis(1500), 1500},
      {now + microseconds(1500), 2}, {now + days(1000), std::numeric_limits<int>::max()},
  };
  for (const auto& [deadline, timeout] : cases) EXPECT_EQ(poll_timeout(deadline, now), timeout);
}

TEST(WaitFor, TellsWhichAreReadable) {
  const Pipe silent = make_pipe(), told = make_pipe();
  Pipe ended = make_pipe();
  ASSERT_TRUE(write_all(told.write.get(), "!"));
  ended.write.reset();
  const int fds[] = {silent.read.get(), told.read.get(), -1, ended.read.get()};
  const SteadyTime now{};
  EXPECT_EQ(wait_for(fds, std::nullopt, now), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(wait_for(std::span(fds).first(1), now, now), std::vector<bool>{false});
}

TEST(ReadSome, TellsTheEndFromAFailure) {
  Pipe pipe = make_pipe();
  char bytes[4];
  ASSERT_TRUE(write_all(pipe.write.get(), "abcdef"));
  EXPECT_EQ(read_some(pipe.read.get(), bytes, sizeof bytes), 4u);
  EXPECT_EQ(read_some(pipe.read.get(), bytes, sizeof bytes), 2u);
  pipe.write.reset();
  EXPECT_EQ(read_some(pipe.read.get(), bytes, sizeof bytes), 0u);
  EXPECT_EQ(read_some(-1, bytes, sizeof bytes), std::nullopt);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace thole
