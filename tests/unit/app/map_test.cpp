// `thole map` in memory: what docs/map.md says of lanes, limits, ends and failures, on made-up tasks and a clock of their own.
#include "app/map/map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <deque>

#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "support/fake_tasks.hpp"

namespace thole::app {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using test::FakeTask;
using Journal = std::vector<std::string>;

struct NoBinder final : port::Binder {
  model::CpuSet allowed_cpus() override { return {}; }
  port::MemoryAccess memory() override { return {}; }
  std::map<std::string, std::string> environment_of(pid_t) override { return {}; }
  port::BoundProcess bind_process(pid_t, const model::CpuSet&) override { return {}; }
};

// At which the test asks.
struct Door final : port::ClaimDoor {
  Door(port::DoorSpec told, Journal& heard) : spec(std::move(told)), events(heard) {}
  int fd() const override { return ready.get(); }
  port::Order serve() override {
    thole::drain(ready.get());
    return std::exchange(asked, {});
  }
  void ask(port::Order order) {
    asked = order;
    const std::uint64_t one = 1;
    (void)!::write(ready.get(), &one, sizeof one);
  }
  void ends_at(std::optional<WallTime>) override {}
  void say_ending(const port::Ending&) override {}
  void let_go() override { events.emplace_back("let go"); }
  port::DoorSpec spec;
  port::Order asked;
  Journal& events;
  Fd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// Items that come when the test says so.
class Trickle final : public ItemSource {
 public:
  Next next(std::vector<std::string>& cells) override {
    if (items.empty()) {
      thole::drain(ready_.get());
      return over ? Next::end : Next::later;
    }
    cells = {items.front()};
    items.pop_front();
    return Next::item;
  }
  int fd() const override { return ready_.get(); }
  void ring() const {
    const std::uint64_t one = 1;
    (void)!::write(ready_.get(), &one, sizeof one);
  }
  std::deque<std::string> items;
  bool over = false;

 private:
  Fd ready_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class MapTest : public testing::Test {
 protected:
  explicit MapTest(int gpus = 1) : site(gpus), all(site.store.slots) {
    site.store.keeps = true;
    site.store.on_sleep = [] { return port::Wake::other_fd; };   // the line is left: nobody waits in it for long
    wanted.lane.request.gpus = 1;
    wanted.lane.argv = {"job"};
    events.ended = [this](const MapTask& task, const MapEnd& end) {
      pool.say(fmt::format("{} of {}{}", end.status(), task.cells[0], end.problem.empty() ? "" : ": " + end.problem));
    };
    events.claims.left_behind = [this](const std::vector<std::string>& left, bool) {
      for (const std::string& one : left) pool.say("left: " + one);
    };
    events.claims.caution = [this](const std::string& text) { cautions += text + "\n"; };
  }

  MapOutcome run(std::vector<std::string> items) {
    ListedItems list({std::move(items)});
    return run(list);
  }
  MapOutcome run(ItemSource& items) {
    const plan::MapTemplate command(wanted.lane.argv, {}, 1);
    const DoorMaker door = [this](port::DoorSpec spec) {
      auto made = std::make_unique<Door>(std::move(spec), door_heard);
      doors.push_back(made.get());
      return made;
    };
    return map({*site.site, {binder}, door, aside, pool, items, command}, wanted, events);
  }

  // Only what is said of this.
  Journal about(const std::string& text) const {
    Journal found;
    for (const std::string& line : pool.journal)
      if (line.find(text) != std::string::npos) found.push_back(line);
    return found;
  }

  test::FakeSite site;
  std::vector<std::string> all;                  // GPUs
  test::LateAside aside;
  std::function<bool()> can_claim = [this] { return site.store.idle().size() >= wanted.lane.request.gpus; };
  test::FakePool pool{site.clock, aside, [this] { return can_claim(); }};
  NoBinder binder;
  MapRequest wanted;
  MapEvents events;
  std::string cautions;
  Journal door_heard;
  std::vector<Door*> doors;
};

class MapOnTwo : public MapTest {
 protected:
  MapOnTwo() : MapTest(2) {}
};

using std::chrono::seconds;

// ---- Lanes ----

TEST_F(MapOnTwo, RunsAsManyAtOnceAsThereAreGpus) {
  pool.tasks["a"].length = Millis{2500};
  const MapOutcome end = run({"a", "b", "c", "d"});
  EXPECT_THAT(pool.journal,
              ElementsAre("0 begins a on 0", "0 begins b on 1", "1 0 of b", "1 begins c on 1", "2 0 of c", "2 begins d on 1",
                          "2.5 0 of a", "3 0 of d"));
  EXPECT_EQ(end.counts.succeeded, 4u);
  EXPECT_EQ(site.store.idle(), all);
}

TEST_F(MapTest, SeveralTasksShareTheGpusOfALane) {
  wanted.per_lane = 2;
  run({"a", "b", "c"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "0 begins b on 0", "1 0 of a", "1 0 of b", "1 begins c on 0",
                                        "2 0 of c"));
}

TEST_F(MapOnTwo, ALaneJoinsWhenItsGpuIsFree) {
  site.store.held = {{"bbbbbbbbbbbbbbbb", {all[1]}, 7}};
  pool.at(Millis{500}, [this] { std::erase_if(site.store.held, [](const auto& one) { return one.uid == 7; }); });
  run({"a", "b"});
  EXPECT_THAT(about("begins"), ElementsAre("0 begins a on 0", "0.5 begins b on 1"));
}

TEST_F(MapOnTwo, ThereAreNoMoreLanesThanAskedFor) {
  wanted.lanes = 1;
  run({"a", "b"});
  EXPECT_THAT(about("begins"), ElementsAre("0 begins a on 0", "1 begins b on 0"));
}

TEST_F(MapTest, WhereSomebodyWaitsTheLaneLetsGoAtTheEndOfItsTaskAndLinesUpAgain) {
  pool.at(Millis{500}, [this] { site.store.wanting = {1}; });
  pool.at(Millis{1500}, [this] { pool.say(fmt::format("{} idle", site.store.idle().size())); });
  pool.at(Millis{3000}, [this] { site.store.wanting.clear(); });
  can_claim = [this] { return site.store.wanting.empty(); };   // it is his turn
  run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 0 of a", "1.5 1 idle", "3 begins b on 0", "4 0 of b"));
}

TEST_F(MapTest, GpusAreNotKeptForItemsThatMayCome) {
  Trickle items;
  items.items = {"a"};
  pool.at(Millis{500}, [this] { pool.say(fmt::format("{} idle", site.store.idle().size())); });
  pool.at(Millis{2000}, [this] { pool.say(fmt::format("{} idle", site.store.idle().size())); });
  pool.at(Millis{5000}, [&] {
    items.items = {"b"};
    items.over = true;
    items.ring();
  });
  run(items);
  EXPECT_THAT(pool.journal,
              ElementsAre("0 begins a on 0", "0.5 0 idle", "1 0 of a", "2 1 idle", "5 begins b on 0", "6 0 of b"));
}

TEST_F(MapOnTwo, ALaneWhoseGpuHasLeftTheListLinesUpAgain) {
  wanted.lanes = 1;
  pool.at(Millis{500}, [this] { site.backend->gpus.erase(site.backend->gpus.begin()); });
  site.site->look_anew = [this] {
    auto backend = std::make_unique<test::FakeBackend>();
    backend->gpus = site.backend->gpus;
    std::vector<std::unique_ptr<port::GpuBackend>> backends;
    backends.push_back(std::move(backend));
    auto seen = std::make_unique<Observer>(std::move(backends), nullptr, site.clock, true);
    seen->look(Millis{1000});
    return seen;
  };
  const MapOutcome end = run({"a", "b"});
  EXPECT_EQ(end.counts.succeeded, 2u);
  EXPECT_THAT(about("begins"), ElementsAre("0 begins a on 0", "1 begins b on 0")) << "as the other is numbered by now";
  EXPECT_THAT(cautions, HasSubstr("its lane lines up again"));
}

TEST_F(MapTest, WhatCannotBeStartedForWantWaitsForTheEndOfAnother) {
  wanted.per_lane = 2;
  bool refuse = true;
  pool.tasks["b"].start = [&] {
    if (std::exchange(refuse, false)) throw Error(ErrorCode::unavailable, "no process").because(EAGAIN);
  };
  const MapOutcome end = run({"a", "b"});
  EXPECT_EQ(end.counts.succeeded, 2u);
  EXPECT_THAT(about("begins"), ElementsAre("0 begins a on 0", "1 begins b on 0"));
}

TEST_F(MapTest, WhereNoneRunsItHasFailed) {
  pool.tasks["a"].start = [] { throw Error(ErrorCode::unavailable, "no process").because(EAGAIN); };
  EXPECT_EQ(run({"a"}).counts.failed, 1u);
  EXPECT_THAT(pool.journal, ElementsAre(HasSubstr("0 69 of a: no process")));
}

// ---- The limit of a task ----

class MapLimit : public MapTest {
 protected:
  MapLimit() {
    wanted.lane.request.time = Seconds{5};
    pool.tasks["a"].length = seconds{600};
  }
};

TEST_F(MapLimit, EndsItAsCtrlCWould) {
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "5 INT to a", "5 130 of a"));
}

TEST_F(MapLimit, IsAnEndInStepsOfThePatience) {
  pool.tasks["a"].deaf = {SIGINT, SIGTERM};
  wanted.patience = seconds{10};
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "5 INT to a", "15 TERM to a", "25 KILL to a", "25 137 of a"));
}

TEST_F(MapLimit, WhoMakesAZeroOfItHasNotSucceeded) {
  pool.tasks["a"].deaf = {SIGINT};
  pool.tasks["a"].on_term = 0;
  EXPECT_EQ(run({"a"}).counts.failed, 1u);
  EXPECT_THAT(pool.journal, Contains("15 1 of a"));
}

TEST_F(MapLimit, WhoHasEndedInTimeIsNotToldOfItHoweverLateThatIsHeard) {
  pool.tasks["a"].length = seconds{5};
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "5 0 of a"));
}

TEST_F(MapLimit, StandsStillWithUs) {
  pool.stands_still = seconds{100};
  pool.at(Millis{2000}, [this] { pool.send(SIGTSTP); });
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "2 stands still", "105 INT to a", "105 130 of a"));
}

TEST_F(MapLimit, IsMovedAtTheDoor) {
  pool.at(Millis{2000}, [this] { doors[0]->ask({.end = false, .until = site.clock.wall() + seconds{60}}); });
  run({"a"});
  EXPECT_THAT(pool.journal, Contains("62 INT to a"));
}

// ---- Ends ----

TEST_F(MapTest, ReleaseEndsItsTasksAndTheLane) {
  pool.tasks["a"].length = seconds{600};
  pool.tasks["a"].deaf = {SIGINT};
  pool.at(Millis{2000}, [this] { doors[0]->ask({.end = true, .until = {}}); });
  const MapOutcome end = run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "2 INT to a", "12 TERM to a", "12 143 of a", "12 begins b on 0",
                                        "13 0 of b"));
  EXPECT_THAT(door_heard, ElementsAre("let go", "let go"));
  EXPECT_EQ(end.cut_short, 0u);
}

TEST_F(MapTest, AFailedTaskIsTriedAgain) {
  wanted.tries = 3;
  pool.tasks["a"].exit_code = 7;
  EXPECT_EQ(run({"a"}).counts.failed, 1u);
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 begins a on 0", "2 begins a on 0", "3 7 of a"));
}

class MapHalt : public MapOnTwo {
 protected:
  MapHalt() {
    pool.tasks["a"].exit_code = 3;
    pool.tasks["b"].length = seconds{60};
  }
};

TEST_F(MapHalt, NowEndsWhatRuns) {
  wanted.halt = {plan::Halt::When::now, plan::Halt::What::fail, 1};
  const MapOutcome end = run({"a", "b", "c"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "0 begins b on 1", "1 3 of a", "1 TERM to b"));
  EXPECT_EQ(end.cut_short, 1u);
  EXPECT_EQ(end.halted_by, 3);
}

TEST_F(MapHalt, SoonLetsItEnd) {
  wanted.halt = {plan::Halt::When::soon, plan::Halt::What::fail, 1};
  const MapOutcome end = run({"a", "b", "c"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "0 begins b on 1", "1 3 of a", "60 0 of b"));
  EXPECT_EQ(end.cut_short, 0u);
}

TEST_F(MapHalt, WhatWouldBeTriedAgainIsCutShort) {
  wanted.tries = 2;
  wanted.halt = {plan::Halt::When::soon, plan::Halt::What::success, 1};
  pool.tasks["a"].length = seconds{60};
  pool.tasks["b"].length = seconds{1};
  const MapOutcome end = run({"a", "b"});
  EXPECT_THAT(about("of"), ElementsAre("1 0 of b"));
  EXPECT_EQ(end.cut_short, 1u);
}

// The kernel is asked: what has ended by itself is not run again by --resume.
TEST_F(MapHalt, WhoHadEndedBeforeItCouldBeAskedWasNotCutShort) {
  wanted.halt = {plan::Halt::When::now, plan::Halt::What::fail, 1};
  pool.tasks["b"].length = seconds{1};
  const MapOutcome end = run({"a", "b"});
  EXPECT_THAT(about("of"), ElementsAre("1 3 of a", "1 0 of b"));
  EXPECT_EQ(end.cut_short, 0u);
}

class MapSignal : public MapTest {
 protected:
  MapSignal() {
    pool.tasks["a"].length = seconds{600};
    pool.tasks["a"].deaf = {SIGTERM};
    first(SIGINT);
  }
  void first(int signal) { pool.at(Millis{1000}, [this, signal] { pool.send(signal); }); }
};

TEST_F(MapSignal, OnceGetsTermAndTenSecondsLaterKill) {
  const MapOutcome end = run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 TERM to a", "11 KILL to a"));
  EXPECT_EQ(end.interrupted, SIGINT);
  EXPECT_EQ(end.cut_short, 1u);
  EXPECT_EQ(site.store.idle(), all);
}

TEST_F(MapSignal, ASecondOneGetsKillAtOnce) {
  pool.at(Millis{1300}, [this] { pool.send(SIGINT); });
  run({"a"});
  EXPECT_THAT(pool.journal, Contains("1.3 KILL to a"));
}

TEST_F(MapSignal, WhatComesSoonerIsTheSameToldTwice) {
  pool.at(Millis{1290}, [this] { pool.send(SIGTERM); });
  run({"a"});
  EXPECT_THAT(pool.journal, Contains("11 KILL to a"));
}

TEST_F(MapSignal, AHangUpHurriesNobody) {
  pool.at(Millis{3000}, [this] { pool.send(SIGHUP); });
  run({"a"});
  EXPECT_THAT(pool.journal, Contains("11 KILL to a"));
}

TEST_F(MapSignal, WhatLivesTenSecondsAfterItsKillIsGivenUp) {
  pool.tasks["a"].deaf = {SIGTERM, SIGKILL};
  run({"a"});
  EXPECT_THAT(pool.journal, Contains("21.5 given up: a"));
}

TEST_F(MapSignal, WhoHasEndedAtThatMomentHasEndedByItself) {
  pool.tasks["a"].length = seconds{1};
  const MapOutcome end = run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 0 of a"));
  EXPECT_EQ(end.cut_short, 0u);
}

// ---- What tasks leave behind ----

TEST_F(MapTest, WhatIsLeftOfItsGroupIsNamedAndEndedBeforeTheBayIsUsedAgain) {
  pool.tasks["a"].leaves = seconds{600};
  run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1.2 left: 99 what a left", "1.2 TERM to a", "1.2 0 of a",
                                        "1.2 begins b on 0", "2.2 0 of b"));
}

TEST_F(MapTest, WhatEndsWithItWasNotLeft) {
  pool.tasks["a"].leaves = Millis{150};
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1.15 0 of a"));
}

TEST_F(MapTest, WhatEvenKillDoesNotEndIsGivenUpAndTheLaneTakesNoMore) {
  pool.tasks["a"].leaves = seconds{600};
  pool.tasks["a"].deaf_rest = {SIGTERM, SIGKILL};
  run({"a", "b"});
  EXPECT_THAT(pool.journal, Contains("11.2 KILL to a"));
  EXPECT_THAT(pool.journal, Contains("21.7 given up: a"));
  EXPECT_THAT(pool.journal, Contains("21.7 0 of a"));
  EXPECT_THAT(door_heard, ElementsAre("let go", "let go")) << "b had a lane of its own";
}

TEST_F(MapTest, WhatHasLeftTheGroupIsEndedBeforeTheGpusAreGivenBack) {
  pool.strays_left.nobodys = {"77 stray"};
  pool.at(Millis{5000}, [this] { pool.say(fmt::format("{} idle", site.store.idle().size())); });
  run({"a"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 0 of a", "1.2 left: 77 stray", "1.2 TERM to strays", "5 0 idle",
                                        "11.2 KILL to strays"));
  EXPECT_EQ(site.store.idle(), all);
}

// ---- Output and failures ----

TEST_F(MapTest, NothingIsBegunWhileNobodyTakesWhatWasTold) {
  bool stalled = false;
  const Fd goes_on(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  events.is_stalled = [&] {
    thole::drain(goes_on.get());
    return stalled;
  };
  events.goes_on = goes_on.get();
  pool.at(Millis{500}, [&] { stalled = true; });
  pool.at(Millis{2000}, [this] { pool.say(fmt::format("{} idle", site.store.idle().size())); });
  pool.at(Millis{9000}, [&] {
    stalled = false;
    const std::uint64_t one = 1;
    (void)!::write(goes_on.get(), &one, sizeof one);
  });
  run({"a", "b"});
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "1 0 of a", "2 1 idle", "9 begins b on 0", "10 0 of b"));
}

TEST_F(MapOnTwo, WhereTellingFailsWhatRunsIsEndedAndWhoHadEndedIsToldAllTheSame) {
  pool.tasks["c"].length = seconds{60};
  wanted.per_lane = 2;
  wanted.lanes = 1;
  events.ended = [this](const MapTask& task, const MapEnd& end) {
    pool.say(fmt::format("{} of {}", end.status(), task.cells[0]));
    if (task.cells[0] == "a") throw Error(ErrorCode::unavailable, "no room");
  };
  pool.tasks["b"].length = seconds{1};
  const MapOutcome end = run({"a", "b", "c"});
  EXPECT_TRUE(end.failure);
  EXPECT_THAT(pool.journal, ElementsAre("0 begins a on 0", "0 begins b on 0", "1 0 of a", "1 0 of b"));
  EXPECT_EQ(site.store.idle(), all);
}

TEST_F(MapTest, AnItemThatCannotBeReadIsTheEndOfTheItems) {
  struct Broken : ItemSource {
    Next next(std::vector<std::string>& cells) override {
      if (read++) throw Error(ErrorCode::usage, "a zero byte");
      cells = {"a"};
      return Next::item;
    }
    int read = 0;
  } items;
  const MapOutcome end = run(items);
  EXPECT_TRUE(end.failure);
  EXPECT_EQ(end.counts.succeeded, 1u);
  EXPECT_THAT(cautions, HasSubstr("no further items are taken: a zero byte"));
}

}  // namespace
}  // namespace thole::app
