// Whatever is done to a queue, in whatever order: its counters are what counting gives, and the index of what may go next says
// what model::kept_back says.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "host/store/job_store.hpp"

namespace thole {

using host::SqliteJobStore;
using model::TaskState;

namespace {

WallTime at(std::int64_t seconds) { return WallTime(Seconds(1'800'000'000 + seconds)); }

// A queue to which random things are done.
class Play {
 public:
  Play() {
    std::string pattern = std::filesystem::temp_directory_path() / "thole_property_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    store_ = std::make_unique<SqliteJobStore>(host::JobStoreOptions{.directory = directory_});
  }
  ~Play() {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  void something() {
    now_ += *rc::gen::inRange(0, 5);
    switch (*rc::gen::weightedElement<int>({{3, 0}, {5, 1}, {5, 2}, {3, 3}, {1, 4}, {1, 5}})) {
      case 0: submit(); break;
      case 1: take(); break;
      case 2: finish(); break;
      case 3: alter(); break;
      case 4: edit(); break;
      case 5: store_->rest(); break;
    }
  }

  void check() {
    std::vector<model::JobId> may_go;
    for (const model::Job& job : store_->jobs({})) {
      model::TaskCounts counted;
      for (model::TaskIndex i = 0; i < job.tasks; ++i) {
        const auto task = store_->task(job.id, i);
        ++counted[task->state];
        RC_ASSERT(task->state == TaskState::running || (!task->paused && !task->cancel_asked));
        RC_ASSERT(task->state == TaskState::queued || !task->ready);
      }
      RC_ASSERT(counted == job.counts);
      RC_ASSERT(job.ended.has_value() == (job.counts.ended() == job.tasks));
      if (!model::kept_back(job, at(now_))) may_go.push_back(job.id);
    }
    std::vector<model::JobId> candidates;
    for (const model::Job& job : store_->candidates(at(now_), 1000)) candidates.push_back(job.id);
    std::sort(candidates.begin(), candidates.end());
    RC_ASSERT(candidates == may_go);
    const auto due = store_->next_due(at(now_));
    RC_ASSERT((!due || *due > at(now_)));   // in brackets: RapidCheck looks at both sides of a bare ||
  }

 private:
  model::JobId some_job() { return *rc::gen::inRange<model::JobId>(1, jobs_ + 2); }

  void submit() {
    port::Submission one;
    one.spec.argv = {"true"};
    one.spec.request.gpus = *rc::gen::inRange(0u, 3u);
    one.tasks = *rc::gen::inRange(1u, 8u);
    one.terms.priority = *rc::gen::inRange(-1, 2);
    one.terms.held = *rc::gen::weightedElement<bool>({{5, false}, {1, true}});
    if (*rc::gen::inRange(0, 4) == 0) one.terms.at_most = *rc::gen::inRange(1u, 3u);
    if (*rc::gen::inRange(0, 4) == 0) one.terms.begin = at(now_ + *rc::gen::inRange(-2, 10));
    if (jobs_ > 0 && *rc::gen::inRange(0, 2) == 0)
      one.terms.after = {{*rc::gen::inRange<model::JobId>(1, jobs_ + 1),
                          *rc::gen::element(model::After::ok, model::After::any, model::After::fail)}};
    jobs_ = store_->submit({&one, 1}, at(now_)).at(0).id;
  }

  void take() {
    port::TakeWish wish;
    wish.job = some_job();
    wish.bays.resize(*rc::gen::inRange(1u, 4u));
    const auto taken = store_->round({}, wish, at(now_)).taken;
    RC_ASSERT(taken.size() <= wish.bays.size());
  }

  void finish() {
    const auto running = store_->running();
    if (running.empty()) return;
    const model::Task task = *rc::gen::elementOf(running);
    port::TaskEnd end;
    end.job = task.job;
    end.index = task.index;
    end.runs = task.runs;
    end.at = at(now_);
    end.state = *rc::gen::element(TaskState::done, TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::queued);
    if (end.state == TaskState::queued) {
      end.unstarted = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) end.ready = at(now_ + *rc::gen::inRange(0, 8));
    }
    store_->round({&end, 1}, std::nullopt, at(now_));
  }

  void alter() {
    port::Selection which{some_job(), 0, std::nullopt};
    which.last = which.first + *rc::gen::inRange(0u, 3u);
    if (*rc::gen::arbitrary<bool>()) {
      const auto first = *rc::gen::inRange<model::TaskIndex>(0, 7);
      which.tasks = {first, first + *rc::gen::inRange(0u, 7u)};
    }
    const auto verb = *rc::gen::element(port::Verb::cancel, port::Verb::hold, port::Verb::resume, port::Verb::pause,
                                        port::Verb::proceed, port::Verb::retry);
    try {
      store_->alter({&which, 1}, verb, at(now_));
    } catch (const Error& error) {   // a skipped job whose dependency has failed for good; a task of a job that is held whole
      RC_ASSERT((error.code() == ErrorCode::usage && (verb == port::Verb::retry || verb == port::Verb::resume)));
    }
  }

  void edit() {
    port::TermsChange change;
    if (*rc::gen::arbitrary<bool>()) change.priority = *rc::gen::inRange(-1, 2);
    if (*rc::gen::arbitrary<bool>()) change.at_most = std::optional<std::uint64_t>(*rc::gen::inRange(1u, 3u));
    if (*rc::gen::arbitrary<bool>()) change.begin = std::optional<WallTime>();
    if (*rc::gen::arbitrary<bool>()) change.after = {{some_job(), model::After::any}};
    try {
      const model::JobId job = some_job();
      store_->edit({&job, 1}, change, at(now_));
    } catch (const Error& error) {               // no such job, nothing left to start, a cycle
      RC_ASSERT(error.code() == ErrorCode::usage);
    }
  }

  std::string directory_;
  std::unique_ptr<SqliteJobStore> store_;
  std::int64_t now_ = 0;
  model::JobId jobs_ = 0;
};

}  // namespace

TEST(JobStoreProperty, CountersAndCandidatesAreWhatTheTasksSay) {
  EXPECT_TRUE(rc::check([] {
    Play play;
    const int steps = *rc::gen::inRange(1, 40);
    for (int i = 0; i < steps; ++i) play.something();
    play.check();
  }));
}

}  // namespace thole
