#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::TaskState;
using port::Changes;
using port::Verb;
using ::testing::ElementsAre;

namespace {

std::vector<model::JobId> ids(const std::vector<model::Job>& jobs) {
  std::vector<model::JobId> all;
  for (const model::Job& job : jobs) all.push_back(job.id);
  return all;
}

}  // namespace

class Look : public QueueTest {
 protected:
  // 1 ended, 2 running, 3 held and tagged, 4 to 6 queued.
  Look() {
    run_all(submit(job(1, "first")));
    take(submit(std::uint64_t{2}));
    port::Submission tagged = job(1, "tagged");
    tagged.spec.tags = {"night", "big"};
    tagged.terms.held = true;
    submit(tagged);
    for (int i = 0; i < 3; ++i) submit();
  }
  port::JobQuery query;
};

TEST_F(Look, AllInOrder) { EXPECT_THAT(ids(store->jobs(query)), ElementsAre(1, 2, 3, 4, 5, 6)); }

TEST_F(Look, ThoseThatHaveNotEnded) {
  query.unended_only = true;
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(2, 3, 4, 5, 6));
}

TEST_F(Look, TheNewestFew) {
  query.newest_first = true;
  query.limit = 2;
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(6, 5));
}

TEST_F(Look, ByRangesOfNumbers) {
  query.ids = {{1, 2, {}}, {5, 5, {}}, {99, 100, {}}};
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(1, 2, 5));
}

TEST_F(Look, ByTagsAndByName) {
  query.tags = {"night"};
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(3));
  query.tags = {"night", "small"};
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre());
  query.tags.clear();
  query.name = "first";
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(1));
}

TEST_F(Look, EndedOnesSince) {
  query.ended_since = at(3);
  EXPECT_THAT(ids(store->jobs(query)), ElementsAre(2, 3, 4, 5, 6));
}

TEST_F(Look, TasksByStateFromSomewhereOn) {
  const auto id = submit(10);
  take(id, 6);
  for (model::TaskIndex i : {1u, 3u, 5u}) finish(id, i, TaskState::failed);
  finish(id, 2, TaskState::done);
  const auto failed = store->tasks(id, 2, 10, {TaskState::failed});
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].index, 3u);
  EXPECT_EQ(failed[1].index, 5u);
  EXPECT_EQ(store->tasks(id, 0, 100, {}).size(), 6u);
  EXPECT_EQ(store->tasks(id, 0, 2, {}).size(), 2u);
  EXPECT_EQ(store->tasks(id, 0, 100, {TaskState::done, TaskState::failed}).size(), 4u);
  EXPECT_EQ(store->task(id, 9)->state, TaskState::queued);
  EXPECT_EQ(store->task(id, 10), std::nullopt);
}

TEST_F(Look, AJobThatDoesNotExistIsSaidSo) {
  EXPECT_THROW(store->spec(99), Error);
}

using Watching = QueueTest;

TEST_F(Watching, AChangeOfAnotherProcessWakes) {
  const auto watch = store->watch(Changes::any);
  EXPECT_FALSE(is_readable(watch->fd()));
  SqliteJobStore other(JobStoreOptions{.directory = directory});
  const port::Submission one = job();
  other.submit({&one, 1}, at(0));
  EXPECT_TRUE(is_readable(watch->fd()));
  watch->drain();
  EXPECT_FALSE(is_readable(watch->fd()));
  other.drain(true);
  EXPECT_TRUE(is_readable(watch->fd()));
}

TEST_F(Watching, WhatChangesNothingWakesNobody) {
  const auto id = submit();
  const auto watch = store->watch(Changes::any);
  alter(id, Verb::resume);
  store->drain(false);
  EXPECT_FALSE(is_readable(watch->fd()));
}

TEST_F(Watching, WhoWaitsForEndsIsWokenByEndsOnly) {
  const auto id = submit(2);
  const auto watch = store->watch(Changes::job_ended);
  take(id, 2);
  finish(id, 0, TaskState::done);
  EXPECT_FALSE(is_readable(watch->fd()));
  finish(id, 1, TaskState::done);
  EXPECT_TRUE(is_readable(watch->fd()));
}

TEST_F(Watching, AWatcherThatWasKilledLeavesNothingBehind) {
  submit();
  const Pipe ready = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto watch = make_watch(directory + "/watch", Changes::any);
    write_all(ready.write.get(), "!");
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready.read.get(), &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(std::filesystem::is_empty(directory + "/watch"));
  submit();
  EXPECT_TRUE(std::filesystem::is_empty(directory + "/watch"));
}

TEST_F(Watching, WhoMakesARemovedDirectoryAgainIsTold) {
  const auto first = store->watch(Changes::any);
  submit();                                      // the writer keeps it open
  std::filesystem::remove_all(directory + "/watch");
  EXPECT_FALSE(first->stands());
  const auto second = store->watch(Changes::any);
  EXPECT_TRUE(second->stands());
  submit();
  EXPECT_TRUE(is_readable(second->fd()));
}

// A writer takes a FIFO that nobody reads for one of a killed watcher, and every watcher's is one for a moment.
TEST_F(Watching, OneThatIsMadeWhileWritersTellIsToldAsWell) {
  submit();
  std::atomic<bool> enough = false;
  std::thread writer([&] {
    for (Watchers watchers(directory + "/watch"); !enough;) watchers.tell(true);
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const auto watch = make_watch(directory + "/watch", Changes::job_ended);
    pollfd sleeper{watch->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&sleeper, 1, 10'000), 1);
  }
  enough = true;
  writer.join();
}

TEST_F(Watching, AWatcherThatNeverDrainsHoldsUpNobody) {
  const auto watch = store->watch(Changes::any);
  Watchers watchers(directory + "/watch");
  for (int i = 0; i < 70'000; ++i) watchers.tell(false);   // more bytes than a FIFO holds
  EXPECT_TRUE(is_readable(watch->fd()));
}

}  // namespace thole::host
