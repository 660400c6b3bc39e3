// A lane over the real store, with GPUs, processes and a runner that are only told of.
#include "app/queue/lane.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/queue/crash_rules.hpp"
#include "base/stream.hpp"
#include "host/store/sqlite.hpp"
#include "support/fake_site.hpp"
#include "unit/app/told_of_lanes.hpp"

namespace thole::host {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Each wait ends as the test says, or at its deadline.
struct ToldOfTasks final : port::TaskKeeper {
  ToldOfTasks(std::vector<std::string>& begun, std::vector<std::pair<unsigned, port::TaskOrder>>& told_tasks,
              std::function<std::vector<port::TaskOver>()> over, const bool& told, SteadyTime& now)
      : marks(begun), orders(told_tasks), ends(std::move(over)), is_told(told), clock(now) {}
  pid_t start(const port::ProcessSpec& spec, const port::TaskRun&) override {
    const std::string& mark = spec.set.at("THOLE_TASK");
    marks.push_back(mark.substr(0, mark.rfind('.')));
    ++live;
    return 1;
  }
  void tell(unsigned bay, const port::TaskOrder& order) override { orders.emplace_back(bay, order); }
  port::TaskStands stands(unsigned) const override { return port::TaskStands::running; }
  bool told_to_end() override { return is_told; }
  std::vector<port::TaskOver> wait(std::span<const int>, std::optional<SteadyTime> deadline) override {
    if (deadline && live == 0) clock = *deadline;
    if (live == 0) return {};
    std::vector<port::TaskOver> over = ends();
    live -= over.size();
    return over;
  }
  std::vector<std::string>& marks;
  std::vector<std::pair<unsigned, port::TaskOrder>>& orders;
  std::function<std::vector<port::TaskOver>()> ends;
  const bool& is_told;
  SteadyTime& clock;
  std::size_t live = 0;
};

// A runner that has always just ended.
struct ToldOfRunners final : port::QueueDoor {
  unsigned looks = 0, stirred = 0;
  bool lives = true;                             // else it is none, after that
  std::function<void()> on_look = [] {};
  void stir() override { ++stirred; }
  void nudge(std::uint64_t) override {}
  std::optional<pid_t> stopped_runner() override { return std::nullopt; }
  std::optional<pid_t> stopped_lane(std::uint64_t) override { return std::nullopt; }
  std::vector<std::string> left_of(const model::Task&, const std::string&) override { return {}; }
  std::optional<port::UnseenRun> unseen(const model::Task&, const std::string&) override { return std::nullopt; }
  std::optional<port::NotedEnd> noted_end(const model::Task&) override { return std::nullopt; }
  std::string last_said() const override { return ""; }
  std::string full_disk() const override { return ""; }
  std::string read_only_disk() const override { return ""; }
  bool relieve(const Files&, bool) override { return true; }
  std::optional<model::JobId> job_of_lane(pid_t) override { return std::nullopt; }
  std::string surroundings(const std::vector<std::string>&) override { return ""; }
  Fd runner_end() override {
    ++looks;
    on_look();
    if (!lives) return {};
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
                         .jobs = *store, .lanes = lanes, .children = children, .door = runners, .logs = logs,
                         .keeper = [this] {
                           return std::make_unique<ToldOfTasks>(begun, orders, on_wait, is_told_to_end, clock.now);
                         },
                         .bind = {binder}, .make_door = make_door, .clock = clock, .carry = {}, .queue = directory,
                         .host = "host", .boot = boot,
                         .say = [this](const std::string& text) { said.push_back(text); }};
    port::LaneSeat seat;
    seat.mail = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    port::SeenRecord::Memory memory(&record, [](const model::LaneRecord*) {});
    seat.record = port::SeenRecord(std::move(memory), Fd(::dup(lanes.record_file)));
    return app::run_lane(told, seat, first);
  }
  static port::TaskOver done(unsigned bay) {
    port::TaskOver over;
    over.bay = bay;
    over.ended.exit_code = 0;
    return over;
  }

  test::FakeSite fake{1};
  ToldOfRunners runners;
  std::vector<std::string> begun;                // by job, task and run
  std::vector<std::pair<unsigned, port::TaskOrder>> orders;   // to its tasks
  app::DoorMaker make_door = {};
  bool is_told_to_end = false;
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
  for (unsigned bay : {0u, 1u}) EXPECT_EQ(record.bays[bay].phase.load(), model::TaskPhase::ended);
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

// As when the machine goes down: what it began then would come to nothing.
TEST_F(LaneTest, OneThatIsToldToEndBeginsNothingMoreAndStartsNoRunner) {
  const model::JobId id = submit(job(3));
  unsigned before = 0;
  on_wait = [&] {
    is_told_to_end = true;
    runners.lives = false;
    before = runners.stirred;
    return std::vector{done(0)};
  };
  EXPECT_EQ(run(look(id)), app::LaneEnd::told_to_end);
  EXPECT_THAT(begun, ElementsAre(fmt::format("{}.0.1", id)));
  EXPECT_EQ(count(id, model::TaskState::done), 1u);
  EXPECT_EQ(count(id, model::TaskState::queued), 2u);
  EXPECT_EQ(runners.stirred, before);
  EXPECT_THAT(said, Contains(HasSubstr("the machine, or somebody, ends its lane")));
}

TEST_F(LaneTest, OneThatIsToldToEndBeforeItsFirstTaskBeginsNone) {
  const model::JobId id = submit(job(3));
  is_told_to_end = true;
  EXPECT_EQ(run(look(id)), app::LaneEnd::told_to_end);
  EXPECT_THAT(begun, testing::IsEmpty());
  EXPECT_EQ(count(id, model::TaskState::queued), 3u);
}

// The signals to all come one after the other, and the next lane has begun between them.
TEST_F(LaneTest, OneWhoseRunnerHasGoneWaitsForItsOwnEndBeforeItBegins) {
  const model::JobId id = submit(job(3));
  runners.lives = false;
  runners.on_look = [&] { is_told_to_end = true; };
  EXPECT_EQ(run(look(id)), app::LaneEnd::told_to_end);
  EXPECT_THAT(begun, testing::IsEmpty());
  EXPECT_EQ(count(id, model::TaskState::queued), 3u);
}

TEST_F(LaneTest, NorDoesItWaitForLongWhereOnlyTheRunnerHasGone) {
  const model::JobId id = submit();
  runners.lives = false;
  const SteadyTime before = clock.now;
  on_wait = [&] {
    runners.lives = true;
    EXPECT_EQ(clock.now - before, Seconds{1});
    return std::vector{done(0)};
  };
  EXPECT_EQ(run(look(id)), app::LaneEnd::worked);
  EXPECT_THAT(begun, ElementsAre(fmt::format("{}.0.1", id)));
}

TEST_F(LaneTest, OfWhatWasTakenDownWithItNobodyKnowsAnEnd) {
  const model::JobId id = submit();
  on_wait = [&] {
    is_told_to_end = true;
    port::TaskOver over;
    over.ended.signal = SIGTERM;
    over.taken_down = true;
    return std::vector{over};
  };
  EXPECT_EQ(run(look(id)), app::LaneEnd::told_to_end);
  EXPECT_EQ(count(id, model::TaskState::lost), 1u);
  EXPECT_EQ(store->task(id, 0)->reason, "the machine, or somebody, ended its lane");
  EXPECT_EQ(store->task(id, 0)->signal, std::nullopt) << "it says nothing of the task";
  const model::Task task = *store->task(id, 0);
  const app::Remains remains = app::remains_of(task, &record, model::Boot::another);
  EXPECT_EQ(app::end_of(task, remains, {}, at(100)).state, model::TaskState::lost) << "whoever stores it";
}

// What waits is not left without one: nobody else may be there.
TEST_F(LaneTest, OneThatEndsWithItsRunnerWaitsForAMomentAndStartsAnother) {
  const model::JobId id = submit(), other = submit(job(1));
  runners.lives = true;
  on_wait = [&] {
    runners.lives = false;
    return std::vector{done(0)};
  };
  const SteadyTime before = clock.now;
  const unsigned stirred = runners.stirred;
  EXPECT_EQ(run(look(id)), app::LaneEnd::worked);
  EXPECT_GT(runners.stirred, stirred);
  EXPECT_GT(clock.now, before);
  EXPECT_EQ(count(other, model::TaskState::queued), 1u);
}

TEST_F(LaneTest, OneThatCanWriteNothingToTheStoreSaysSo) {
  const model::Job first = look(submit());
  Database other(directory + "/queue.db", nullptr);
  other.execute("CREATE TRIGGER refuse BEFORE INSERT ON task BEGIN SELECT RAISE(FAIL, 'no room'); END");
  EXPECT_EQ(run(first), app::LaneEnd::no_store) << "and not that it has worked";
  EXPECT_THAT(begun, testing::IsEmpty());
}

// A door at which somebody asks once.
struct AskedOnce final : port::ClaimDoor {
  AskedOnce(port::DoorSpec told, port::Order order, std::vector<std::string>& heard)
      : spec(std::move(told)), asked(order), events(heard) {}
  int fd() const override { return ready.get(); }
  port::Order serve() override {
    thole::drain(ready.get());
    EXPECT_TRUE(!asked.until || spec.amend(asked.until));
    if (answered) answered();
    return asked;
  }
  void ends_at(std::optional<WallTime> until) override { events.push_back(until ? "ends " + format_iso(*until) : "no end"); }
  void say_ending(const port::Ending&) override {}
  void let_go() override { events.emplace_back("let go"); }
  port::DoorSpec spec;
  port::Order asked;
  std::vector<std::string>& events;
  std::function<void()> answered{};              // what was asked for is about to be confirmed
  Fd ready{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class LaneDoor : public LaneTest {
 protected:
  LaneDoor() {
    make_door = [this](port::DoorSpec spec) {
      auto once = std::make_unique<AskedOnce>(std::move(spec), order, events);
      once->answered = answered;
      return once;
    };
  }
  port::Submission with_gpu(unsigned tasks = 1) {
    port::Submission wanted = job(tasks);
    wanted.spec.request.gpus = 1;
    return wanted;
  }
  port::Order order;
  std::function<void()> answered;
  std::vector<std::string> events;               // of the door
};

// The first wait is the one after whose end the door is looked at.
TEST_F(LaneDoor, WhoGivesItsClaimBackCancelsWhatRunsAndTheRestWaits) {
  const model::JobId id = submit(with_gpu(3));
  order.end = true;
  unsigned waits = 0;
  bool cancel_asked = false;
  on_wait = [&]() -> std::vector<port::TaskOver> {
    if (++waits == 1) return {};
    cancel_asked = store->task(id, 0)->cancel_asked;
    port::TaskOver over = done(0);
    over.cancelled = true;
    over.ended.exit_code.reset();
    over.ended.signal = 2;
    return {over};
  };
  EXPECT_EQ(run(look(id)), app::LaneEnd::worked);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<port::StopTask>(orders.front().second));
  EXPECT_TRUE(cancel_asked) << "in the store, whatever becomes of the lane";
  EXPECT_EQ(count(id, model::TaskState::cancelled), 1u);
  EXPECT_EQ(count(id, model::TaskState::queued), 2u);
  EXPECT_THAT(events, ElementsAre("let go"));
  EXPECT_THAT(said, Contains(HasSubstr("its claim is given back")));
}

TEST_F(LaneDoor, ANewEndIsThatOfWhatRunsAndTheNextTaskHasTheLimitOfTheJob) {
  port::Submission wanted = with_gpu(2);
  wanted.spec.request.time = Seconds{60};
  wanted.terms.time = Seconds{60};
  const model::JobId id = submit(wanted);
  const port::Clock& ours = fake.site->clock;
  order.until = ours.wall() + Seconds{600};
  unsigned waits = 0;
  std::int32_t noted = 0;
  answered = [&] { noted = record.bays[0].limit_clock; };
  on_wait = [&]() -> std::vector<port::TaskOver> {
    if (++waits == 1) return {};
    return {done(0)};
  };
  const SteadyTime before = ours.steady();
  EXPECT_EQ(run(look(id)), app::LaneEnd::worked);
  ASSERT_EQ(orders.size(), 1u);
  const auto* extended = std::get_if<port::ExtendTask>(&orders.front().second);
  ASSERT_TRUE(extended);
  EXPECT_EQ(std::chrono::round<Seconds>(extended->limit - before), Seconds{600});
  EXPECT_EQ(noted, 540) << "who looks after it when this lane is killed right then goes by that";
  EXPECT_EQ(count(id, model::TaskState::done), 2u);
  // What others know: the new end by the door itself, then that of the next task.
  EXPECT_THAT(events, ElementsAre("ends " + format_iso(ours.wall() + Seconds{60}), "let go"));
}

// Others plan with what the claim may take at most: its end comes by INT, TERM and KILL, each a patience after the other.
TEST_F(LaneDoor, OthersAreToldANewEndWithTheLongPatienceOfTheJob) {
  port::Submission wanted = with_gpu();
  wanted.spec.request.time = Seconds{60};
  wanted.terms.time = Seconds{60};
  wanted.spec.patience = model::usual_patience + Seconds{30};
  order.until = fake.site->clock.wall() + Seconds{600};
  unsigned waits = 0;
  std::optional<WallTime> told;
  on_wait = [&]() -> std::vector<port::TaskOver> {
    if (++waits == 1) return {};
    told = fake.store.amended;
    return {done(0)};
  };
  EXPECT_EQ(run(look(submit(wanted))), app::LaneEnd::worked);
  EXPECT_EQ(told, *order.until + Seconds{60});
}

}  // namespace
}  // namespace thole::host
