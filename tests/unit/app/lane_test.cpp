// A lane over the real store, with GPUs, processes and a runner that are only told of.
#include "app/lane.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/store/sqlite.hpp"
#include "support/fake_site.hpp"
#include "unit/app/told_of_lanes.hpp"

namespace thole::host {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Each wait ends as the test says.
struct ToldOfTasks final : port::TaskKeeper {
  ToldOfTasks(std::vector<std::string>& begun, std::function<std::vector<port::TaskOver>()> over)
      : marks(begun), ends(std::move(over)) {}
  pid_t start(const port::ProcessSpec&, const port::TaskRun& run) override {
    marks.push_back(run.mark.substr(0, run.mark.rfind('.')));
    return 1;
  }
  void stop(unsigned) override {}
  void pause(unsigned, bool) override {}
  std::vector<port::TaskOver> wait(std::span<const int>, std::optional<SteadyTime>) override { return ends(); }
  std::vector<std::string>& marks;
  std::function<std::vector<port::TaskOver>()> ends;
};

// A runner that has always just ended.
struct ToldOfRunners final : port::QueueDoor {
  unsigned looks = 0;
  void stir() override {}
  void nudge(std::uint64_t) override {}
  std::optional<pid_t> stopped_runner() override { return std::nullopt; }
  std::optional<pid_t> stopped_lane(std::uint64_t) override { return std::nullopt; }
  std::vector<std::string> left_of(const model::Task&, const std::string&) override { return {}; }
  std::optional<port::UnseenRun> unseen(const model::Task&, const std::string&) override { return std::nullopt; }
  std::optional<port::NotedEnd> noted_end(const model::Task&) override { return std::nullopt; }
  std::string last_said() const override { return ""; }
  std::string full_disk() const override { return ""; }
  bool relieve(const Files&, bool) override { return true; }
  std::optional<model::JobId> job_of_lane(pid_t) override { return std::nullopt; }
  std::string surroundings(const std::vector<std::string>&) override { return ""; }
  Fd runner_end() override {
    ++looks;
    return Fd(::eventfd(1, EFD_CLOEXEC));
  }
  std::string log_path(const std::string& name) const override { return name; }
  void forget_logs(model::JobId) override {}
  void settle_code(const Owner&) override {}
};

class LaneTest : public LanesTest {
 protected:
  app::LaneEnd run(const model::Job& first) {
    app::QueuePorts told{.site = [this]() -> app::Site& { return *fake.site; },
                         .jobs = *store, .lanes = lanes, .door = runners, .logs = logs,
                         .keeper = [this] { return std::make_unique<ToldOfTasks>(begun, on_wait); },
                         .bind = {binder}, .clock = clock, .carry = {}, .queue = directory, .host = "host", .boot = boot,
                         .say = [this](const std::string& text) { said.push_back(text); }};
    port::LaneSeat seat;
    seat.mail = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    port::SeenRecord::Memory memory(&record, [](const model::LaneRecord*) {});
    seat.record = port::SeenRecord(std::move(memory), Fd(::dup(lanes.record_file)));
    return app::run_lane(told, seat, first);
  }
  static port::TaskOver done(unsigned place) {
    port::TaskOver over;
    over.place = place;
    over.ended.exit_code = 0;
    return over;
  }

  test::FakeSite fake{1};
  ToldOfRunners runners;
  std::vector<std::string> begun;                // by job, task and run
  std::function<std::vector<port::TaskOver>()> on_wait = [] { return std::vector{done(0)}; };
};

TEST_F(LaneTest, TheBestJobOfTheKindGetsTheClaim) {
  const model::JobId first = submit();
  port::Submission better = job();
  better.terms.priority = 5;
  const model::Job chosen = look(first);         // by the runner, a moment before
  const model::JobId best = submit(better);
  EXPECT_EQ(run(chosen), app::LaneEnd::worked);
  EXPECT_THAT(begun, ElementsAre(fmt::format("{}.0.1", best)));
  EXPECT_EQ(count(best, model::TaskState::done), 1u);
  EXPECT_EQ(count(first, model::TaskState::queued), 1u);
}

// Its present tasks go on, and the runner of the newer program is not looked for by one who cannot read its queue.
TEST_F(LaneTest, OneWhoseFileIsANewerProgramsLeavesItToThatOne) {
  port::Submission pair = job(2);
  pair.spec.per_gpu = 2;
  const model::JobId id = submit(pair);
  unsigned waits = 0, looks = 0;
  on_wait = [&]() -> std::vector<port::TaskOver> {
    if (++waits == 1) {
      Database file(directory + "/queue.db", nullptr);
      file.execute("PRAGMA user_version = 99");
      return {done(0)};
    }
    if (waits == 2) {
      looks = runners.looks;
      return {};
    }
    return {done(1)};
  };
  EXPECT_EQ(run(look(id)), app::LaneEnd::worked);
  EXPECT_THAT(begun, ElementsAre(fmt::format("{}.0.1", id), fmt::format("{}.1.1", id)));
  EXPECT_EQ(waits, 3u);
  EXPECT_THAT(said, ElementsAre(HasSubstr("this lane ends after its present tasks")));
  EXPECT_EQ(runners.looks, looks) << "after that";
  for (unsigned place : {0u, 1u}) EXPECT_EQ(record.places[place].phase.load(), model::TaskPhase::ended);
}

// A full disk: what was killed then would be taken for what has never begun.
TEST_F(LaneTest, WhatCannotBeNotedBeforehandDoesNotBegin) {
  const Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
  lanes.record_file = full.get();
  const model::JobId id = submit();
  EXPECT_EQ(run(look(id)), app::LaneEnd::cannot_start);
  EXPECT_THAT(begun, testing::IsEmpty());
  EXPECT_EQ(count(id, model::TaskState::queued), 1u);
  EXPECT_THAT(said, Contains(HasSubstr("No space left")));
}

TEST_F(LaneTest, OneThatCanWriteNothingToTheStoreSaysSo) {
  const model::Job first = look(submit());
  Database other(directory + "/queue.db", nullptr);
  other.execute("CREATE TRIGGER refuse BEFORE INSERT ON task BEGIN SELECT RAISE(FAIL, 'no room'); END");
  EXPECT_EQ(run(first), app::LaneEnd::no_store) << "and not that it has worked";
  EXPECT_THAT(begun, testing::IsEmpty());
}

}  // namespace
}  // namespace thole::host
