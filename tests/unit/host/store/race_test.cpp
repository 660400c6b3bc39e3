// Several processes at one queue, any of which may be killed at any moment.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/fd.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

using model::TaskState;

namespace {

// What a process says about itself; short enough to be written in one piece.
struct Said {
  enum class Kind : std::uint32_t { submitted, took, finished } kind;
  std::uint32_t runs;
  model::JobId job;
  model::TaskIndex index;
};

class Race : public QueueTest {
 protected:
  // Starts a process that does `work` again and again until it is killed or `work` says false.
  pid_t start(const std::function<bool(SqliteJobStore&, int pipe)>& work) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    SqliteJobStore mine(JobStoreOptions{.directory = directory});
    while (work(mine, words.write.get())) {
    }
    ::_exit(0);
  }

  // All that was said so far; with everybody gone, all there is.
  void listen(std::vector<Said>& heard) {
    Said word;
    while (::read(words.read.get(), &word, sizeof word) == static_cast<ssize_t>(sizeof word)) heard.push_back(word);
  }

  static void say(int pipe, const Said& word) { write_all(pipe, {reinterpret_cast<const char*>(&word), sizeof word}); }

  static bool submit_one(SqliteJobStore& store, int pipe) {
    const port::Submission one = job(3);
    say(pipe, {Said::Kind::submitted, 0, store.submit({&one, 1}, at(0)).at(0).id, 0});
    return true;
  }

  // A lane that takes whatever goes next, finishes it with the next round, and is done with what is queued when it began.
  static bool run_one(SqliteJobStore& store, int pipe) {
    const auto candidates = store.candidates(at(1), 1);
    if (candidates.empty()) return true;
    port::TakeWish wish;
    wish.job = candidates[0].id;
    std::vector<port::TaskEnd> ends;
    for (;;) {
      const port::Round round = store.round(ends, wish, at(1));
      for (const port::TaskEnd& end : ends) say(pipe, {Said::Kind::finished, end.runs, end.job, end.index});
      if (round.taken.empty()) return true;
      const port::TakenTask& task = round.taken[0];
      say(pipe, {Said::Kind::took, task.runs, task.job, task.index});
      ends.assign(1, {});
      ends[0].job = task.job;
      ends[0].index = task.index;
      ends[0].runs = task.runs;
      ends[0].at = at(2);
    }
  }

  Pipe words = make_pipe();
};

}  // namespace

TEST_F(Race, NoTaskIsTakenTwiceAndNoSubmissionLostWhoeverIsKilled) {
  submit();                                      // the file is there, and nobody of ours has it open when processes are made
  store->rest();
  const char* longer = std::getenv("THOLE_KILLS");
  const int kills = longer ? std::atoi(longer) : 100;
  ASSERT_EQ(::fcntl(words.read.get(), F_SETFL, O_NONBLOCK), 0);
  std::mt19937 random(42);
  std::vector<std::pair<pid_t, bool>> processes;   // and whether it submits
  for (int i = 0; i < 4; ++i) processes.emplace_back(start(i % 2 ? run_one : submit_one), i % 2 == 0);
  std::vector<Said> heard;
  for (int i = 0; i < kills; ++i) {
    // A random moment: after so many further words.
    const std::size_t until = heard.size() + random() % 8;
    pollfd readable{words.read.get(), POLLIN, 0};
    while (heard.size() < until && ::poll(&readable, 1, 10'000) > 0) listen(heard);
    auto& [victim, submits] = processes[random() % processes.size()];
    ::kill(victim, SIGKILL);
    ASSERT_EQ(::waitpid(victim, nullptr, 0), victim);
    victim = start(submits ? submit_one : run_one);
  }
  for (const auto& [process, submits] : processes) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  listen(heard);

  std::set<std::tuple<model::JobId, model::TaskIndex>> taken;
  std::map<model::JobId, model::Job> jobs;
  for (const model::Job& job : store->jobs({})) jobs[job.id] = job;
  std::size_t submitted = 0, finished = 0;
  for (const Said& word : heard) {
    ASSERT_TRUE(jobs.contains(word.job));
    submitted += word.kind == Said::Kind::submitted;
    if (word.kind == Said::Kind::took) {
      EXPECT_TRUE(taken.emplace(word.job, word.index).second) << word.job << "[" << word.index << "]";
    }
    if (word.kind == Said::Kind::finished) {
      ++finished;
      EXPECT_EQ(store->task(word.job, word.index)->state, TaskState::done);
    }
  }
  EXPECT_GT(submitted, 10u);
  EXPECT_GT(finished, 10u);
  model::TaskCounts all;
  for (const auto& [id, job] : jobs) {
    EXPECT_EQ(job.counts.total(), job.tasks);
    all += job.counts;
  }
  EXPECT_GE(all[TaskState::done], finished);
  EXPECT_EQ(store->running().size(), all[TaskState::running]);   // those of the killed: what a runner finds
  EXPECT_LE(all[TaskState::running], static_cast<std::uint64_t>(kills) + 4);
}

TEST_F(Race, CancelAndStartHaveOneWinner) {
  submit();
  store->rest();
  for (int round = 0; round < 20; ++round) {
    const auto id = submit();
    store->rest();
    const pid_t taker = start([&](SqliteJobStore& mine, int pipe) {
      port::TakeWish wish;
      wish.job = id;
      if (!mine.round({}, wish, at(1)).taken.empty()) say(pipe, {Said::Kind::took, 1, id, 0});
      return false;
    });
    const auto altered = alter(id, port::Verb::cancel);
    ::waitpid(taker, nullptr, 0);
    ASSERT_EQ(altered.size(), 1u);
    const auto task = store->task(id, 0);
    if (altered[0].running.empty()) {
      EXPECT_EQ(task->state, TaskState::cancelled);
    } else {
      EXPECT_EQ(task->state, TaskState::running);
      EXPECT_TRUE(task->cancel_asked);
      Said word;
      EXPECT_EQ(::read(words.read.get(), &word, sizeof word), static_cast<ssize_t>(sizeof word));
    }
    store->rest();
  }
}

}  // namespace thole::host
