// A queue in a directory of its own, and short ways to submit to it and to take from it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "host/store/job_store.hpp"
#include "host/store/sqlite.hpp"

namespace thole::host {

// A queue's is its owner's alone.
inline void make_queue_directory(const std::string& path) {
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

inline WallTime at(std::int64_t seconds) { return WallTime(Seconds(1'800'000'000 + seconds)); }

inline port::Submission job(std::uint64_t tasks = 1, std::string name = "") {
  port::Submission submission;
  submission.spec.argv = {"python", "train.py"};
  submission.spec.name = std::move(name);
  submission.spec.directory = "/home/me";
  submission.spec.environment = {"HOME=/home/me", "LANG=C"};
  submission.tasks = tasks;
  return submission;
}

// Every task counted one by one is what the job's counters say, and the file itself is sound.
inline void expect_sound(SqliteJobStore& store, const std::string& directory) {
  for (const model::Job& job : store.jobs({})) {
    model::TaskCounts counted;
    for (model::TaskIndex i = 0; i < job.tasks; ++i) ++counted[store.task(job.id, i)->state];
    EXPECT_EQ(counted, job.counts) << "job " << job.id;
    EXPECT_EQ(store.spec(job.id).argv, (std::vector<std::string>{"python", "train.py"}));
  }
  store.rest();
  Database db(directory + "/queue.db", nullptr);
  Rows rows = db.query("PRAGMA integrity_check");
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.text(0), "ok");
}

class QueueTest : public ::testing::Test {
 protected:
  QueueTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "thole_queue_XXXXXX";
    directory = ::mkdtemp(pattern.data());
    store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory});
  }
  ~QueueTest() override {
    store.reset();
    std::filesystem::remove_all(directory);
  }

  model::JobId submit(const port::Submission& one, WallTime now = at(0)) { return store->submit({&one, 1}, now).at(0).id; }
  model::JobId submit(std::uint64_t tasks = 1) { return submit(job(tasks)); }

  std::vector<port::TakenTask> take(model::JobId from, unsigned count = 1, WallTime now = at(1)) {
    port::TakeWish wish;
    wish.job = from;
    wish.lane = 7;
    wish.bays.resize(count);
    for (unsigned i = 0; i < count; ++i) wish.bays[i] = {i, "1.log", 100};
    wish.gpus = {"GPU-a", "GPU-b"};
    return store->round({}, wish, now).taken;
  }

  port::Round finish(model::JobId of, model::TaskIndex index, model::TaskState state, WallTime now = at(2),
                     std::optional<WallTime> ready = std::nullopt) {
    port::TaskEnd end;
    end.job = of;
    end.index = index;
    end.state = state;
    end.at = now;
    end.ready = ready;
    end.exit_code = state == model::TaskState::done ? 0 : 1;
    return store->round({&end, 1}, std::nullopt, now);
  }
  // Takes and finishes all there is.
  void run_all(model::JobId of, model::TaskState state = model::TaskState::done) {
    for (;;) {
      const auto taken = take(of);
      if (taken.empty()) return;
      finish(of, taken[0].index, state);
    }
  }

  std::vector<port::Altered> alter(model::JobId which, port::Verb verb) {
    const port::Selection selection{which, which, std::nullopt};
    return store->alter({&selection, 1}, verb, at(3));
  }
  std::vector<port::Altered> alter(model::JobId which, model::TaskIndex first, model::TaskIndex last, port::Verb verb) {
    const port::Selection selection{which, which, std::pair(first, last)};
    return store->alter({&selection, 1}, verb, at(3));
  }

  model::Job look(model::JobId which) {
    port::JobQuery query;
    query.ids = {{which, which, std::nullopt}};
    return store->jobs(query).at(0);
  }
  std::uint64_t count(model::JobId which, model::TaskState state) { return look(which).counts[state]; }
  std::vector<model::JobId> candidate_ids(WallTime now = at(1), unsigned per_class = 100) {
    std::vector<model::JobId> ids;
    for (const model::Job& one : store->candidates(now, per_class)) ids.push_back(one.id);
    return ids;
  }

  std::string directory;
  std::unique_ptr<SqliteJobStore> store;
};

}  // namespace thole::host
