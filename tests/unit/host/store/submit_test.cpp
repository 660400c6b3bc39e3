#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::After;
using model::TaskState;
using ::testing::ElementsAre;

using Submit = QueueTest;

TEST_F(Submit, GivesNumbersInOrderFromOne) {
  EXPECT_EQ(submit(), 1u);
  EXPECT_EQ(submit(), 2u);
}

TEST_F(Submit, WhatWasSubmittedIsThereForTheNextProcess) {
  port::Submission one = job(1, "train");
  one.spec.argv = {"python", "\xff latin\n1", ""};
  one.spec.tags = {"night", "big"};
  one.spec.request.gpus = 2;
  one.spec.request.on = {"0", "3"};
  one.spec.bind.mode = model::BindMode::core;
  one.spec.bind.cores = 4;
  one.spec.umask = 077;
  one.spec.environment = {"A=1", "EMPTY=", "B=two words"};
  one.spec.retry.times = 3;
  one.spec.retry.exit_codes = {{1, 1}, {64, 70}};
  one.spec.sweep.grid = {{"lr", {"1e-3", "1e-4"}, {}}, {"seed", {}, model::Range{-2, 1000000, 2}}};
  one.terms.time = Seconds(3600);
  one.terms.priority = -5;
  submit(one);
  SqliteJobStore other(JobStoreOptions{.directory = directory});
  const model::JobSpec spec = other.spec(1);
  EXPECT_EQ(spec.argv, one.spec.argv);
  EXPECT_EQ(spec.name, "train");
  EXPECT_EQ(spec.tags, one.spec.tags);
  EXPECT_EQ(spec.environment, one.spec.environment);
  EXPECT_EQ(spec.request.gpus, 2u);
  EXPECT_EQ(spec.request.on, one.spec.request.on);
  EXPECT_EQ(spec.bind, one.spec.bind);
  EXPECT_EQ(spec.umask, 077u);
  EXPECT_EQ(spec.retry, one.spec.retry);
  EXPECT_EQ(spec.sweep, one.spec.sweep);
  EXPECT_EQ(spec.request.time, Seconds(3600));
  const model::Job listed = other.jobs({}).at(0);
  EXPECT_EQ(listed.terms.priority, -5);
  EXPECT_EQ(listed.gpus, 2u);
  EXPECT_EQ(listed.submitted, at(0));
  EXPECT_THAT(listed.tags, ElementsAre("night", "big"));
}

TEST_F(Submit, TheEnvironmentMayBeEmpty) {
  port::Submission one = job();
  one.spec.environment.clear();
  EXPECT_TRUE(store->spec(submit(one)).environment.empty());
}

TEST_F(Submit, ManyInOneCallAreAllOrNothing) {
  std::vector<port::Submission> all(3, job());
  all[2].terms.after = {{99, After::ok}};
  EXPECT_THROW(store->submit(all, at(0)), Error);
  EXPECT_TRUE(store->jobs({}).empty());
}

TEST_F(Submit, IfAbsentGivesTheJobOfThatNameThatHasNotEnded) {
  port::Submission one = job(1, "nightly");
  one.if_absent = true;
  const auto first = store->submit({&one, 1}, at(0)).at(0), second = store->submit({&one, 1}, at(0)).at(0);
  EXPECT_FALSE(first.existed);
  EXPECT_TRUE(second.existed);
  EXPECT_EQ(second.id, first.id);
  run_all(first.id);
  EXPECT_FALSE(store->submit({&one, 1}, at(0)).at(0).existed);
}

TEST_F(Submit, AJobOfABatchWaitsForAnEarlierOne) {
  std::vector<port::Submission> batch(2, job());
  batch[1].after_earlier = {{0, After::ok}};
  const auto done = store->submit(batch, at(0));
  EXPECT_EQ(look(done[1].id).unmet, 1u);
  EXPECT_THAT(look(done[1].id).terms.after, ElementsAre(model::Dependency{done[0].id, After::ok}));
}

TEST_F(Submit, TooManyTasksAreRefused) {
  EXPECT_THROW(submit(model::most_tasks + 1), Error);
  EXPECT_THROW(submit(std::uint64_t{0}), Error);
}

TEST_F(Submit, ItemsComeBackCellByCell) {
  model::Items items(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string line = "line " + std::to_string(i), empty;
    const std::string_view row[] = {line, empty};
    items.add(row);
  }
  port::Submission one = job(6000);
  one.items = items;
  const auto id = submit(one);
  for (std::uint64_t item : {0u, 1023u, 1024u, 2999u})
    EXPECT_THAT(store->cells(id, item), ElementsAre("line " + std::to_string(item), ""));
  EXPECT_THROW(store->cells(id, 3072), Error);
  EXPECT_THAT(take(id).at(0).cells, ElementsAre("line 0", ""));
  EXPECT_THAT(take(id).at(0).cells, ElementsAre("line 0", ""));   // two tasks for each item
  EXPECT_THAT(take(id).at(0).cells, ElementsAre("line 1", ""));
}

TEST_F(Submit, NobodyElseCanReadTheFiles) {
  submit();
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    EXPECT_EQ(entry.status().permissions() & std::filesystem::perms(077), std::filesystem::perms::none) << entry.path();
}

// Each of them opens the file while nobody else has it, as `thole submit` does without a runner.
TEST_F(Submit, ASeriesOfSubmittersDoesNotLengthenTheLog) {
  const auto log = [this] { return std::filesystem::file_size(directory + "/queue.db-wal"); };
  std::uintmax_t longest = 0;
  for (int i = 0; i < 100; ++i) {
    SqliteJobStore alone(JobStoreOptions{.directory = directory});
    const port::Submission one = job();
    alone.submit({&one, 1}, at(i));
    longest = std::max(longest, log());
  }
  EXPECT_LT(longest, 100u * 4120);
}

// SQLite's index of the log begins with a header that each change of the queue, and each reading of the whole log, changes.
TEST_F(Submit, WhileAProcessRestsTheNextNeedNotReadTheLogAgain) {
  submit();
  const auto header = [this] {
    std::string bytes(2 * 48, '\0');
    std::ifstream(directory + "/queue.db-shm").read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  const std::string before = header();
  store->rest();
  SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({});
  EXPECT_EQ(header(), before);
  store.reset();                                 // nobody has it now
  SqliteJobStore(JobStoreOptions{.directory = directory}).jobs({});
  EXPECT_NE(header(), before);
}

}  // namespace thole::host
