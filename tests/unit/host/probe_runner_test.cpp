// The parent side of a probe against probes that misbehave; shell scripts play them.
#include "host/probe/runner.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

using End = ProbeOutcome::End;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr Millis answer_patience{8'000};
std::chrono::steady_clock::time_point steady_now() { return std::chrono::steady_clock::now(); }

class ProbeRunnerTest : public testing::Test {
 protected:
  ProbeRunnerTest() {
    std::string pattern = (fs::temp_directory_path() / "thole-probe-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ProbeRunnerTest() override { fs::remove_all(directory_); }

  ProbeOptions script(const std::string& text) const { return {"/bin/sh", {"-c", text}, directory_, "probe-test"}; }

  ProbeOutcome ask(ProbeRunner& runner, Millis patience = answer_patience) {
    lines_.clear();
    return runner.ask("question", patience, [&](std::string_view line) { lines_.emplace_back(line); return std::nullopt; });
  }

  std::string directory_;
  std::vector<std::string> lines_;
};

TEST_F(ProbeRunnerTest, DeliversTheLinesUpToTheEndMark) {
  ProbeRunner runner(script("read q; echo got $q; echo two; echo .; read more"));
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_THAT(lines_, ElementsAre("got question", "two"));
  EXPECT_TRUE(runner.warm());
}

TEST_F(ProbeRunnerTest, KeepsWhatCameBeforeAHangAndKillsTheHungOne) {
  ProbeRunner runner(script("read q; echo $$; exec sleep 1000"));
  auto begin = steady_now();
  ProbeOutcome outcome = ask(runner, Millis(300));
  EXPECT_LT(steady_now() - begin, Millis(1'500));
  EXPECT_EQ(outcome.end, End::timed_out);
  EXPECT_TRUE(outcome.stuck_since);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(::kill(static_cast<pid_t>(*parse_u64(lines_[0])), 0), 0);
  EXPECT_FALSE(runner.warm());
}

TEST_F(ProbeRunnerTest, ARecordCanShortenThePatience) {
  ProbeRunner runner(script("read q; echo one; exec sleep 1000"));
  auto begin = steady_now();
  ProbeOutcome outcome = runner.ask("q", answer_patience, [](std::string_view) { return Millis(100); });
  EXPECT_EQ(outcome.end, End::timed_out);
  EXPECT_LT(steady_now() - begin, Millis(3'000));
}

// A driver hung while this probe came up may be well again, and never answer this one.
TEST_F(ProbeRunnerTest, OneThatComesUpInSilenceForTooLongGivesWayToAnother) {
  ProbeOptions options = script("read q; [ -e " + directory_ + "/well ] || exec sleep 1000; echo well; echo .; read more");
  options.longest_silence = Millis(0);
  ProbeRunner runner(options);
  const auto ask_patiently = [&](Millis patience) {
    const auto told = [&](std::string_view line) { lines_.emplace_back(line); return std::optional<Millis>(); };
    return runner.ask("q", patience, told, AnswerFor::all, [] { return true; });
  };
  EXPECT_EQ(ask_patiently(Millis(50)).end, End::timed_out);
  EXPECT_FALSE(runner.warm());
  std::ofstream(directory_ + "/well").put('\n');
  EXPECT_EQ(ask_patiently(answer_patience).end, End::complete);
  EXPECT_THAT(lines_, ElementsAre("well"));
}

struct BadEnd {
  const char* script;
  const char* detail;
};
class ProbeRunnerBadEnds : public ProbeRunnerTest, public testing::WithParamInterface<BadEnd> {};
INSTANTIATE_TEST_SUITE_P(
    All, ProbeRunnerBadEnds,
    testing::Values(BadEnd{"read q; exit 3", "status 3"}, BadEnd{"read q; kill -SEGV $$", "signal 11"},
                    BadEnd{"read q; printf '{\"driver\":'; exit 0", "status 0"},
                    BadEnd{"read q; exec 0>&- 1>&- 9>&-; exec sleep 1000", "closed"},
                    BadEnd{"read q; while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done | tr -d '\\n'",
                           "endless"}));

TEST_P(ProbeRunnerBadEnds, AreCrashesWithTheirReasonAndTheNextQuestionStartsAfresh) {
  ProbeRunner runner(script(std::string("if [ -e ") + directory_ + "/again ]; then read q; echo fine; echo .; read more; fi; " +
                            GetParam().script));
  ProbeOutcome outcome = ask(runner);
  EXPECT_EQ(outcome.end, End::crashed);
  EXPECT_THAT(outcome.detail, HasSubstr(GetParam().detail));
  std::ofstream(directory_ + "/again") << "";
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_THAT(lines_, ElementsAre("fine"));
}

TEST_F(ProbeRunnerTest, AnIdleProbeThatLeftIsStartedAgain) {
  ProbeRunner runner(script("read q; echo $$; echo ."));
  EXPECT_EQ(ask(runner).end, End::complete);
  std::string first = lines_.at(0);
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_NE(lines_.at(0), first);
}

TEST_F(ProbeRunnerTest, AMissingProgramIsNotStarted) {
  ProbeRunner runner({directory_ + "/none", {}, directory_, "probe-test"});
  ProbeOutcome outcome = ask(runner);
  EXPECT_EQ(outcome.end, End::not_started);
  EXPECT_THAT(outcome.detail, HasSubstr("No such file"));
  ProbeRunner works(script("read q; echo ."));
  EXPECT_EQ(ask(works).end, End::complete);                // the lock was given back
}

TEST_F(ProbeRunnerTest, TheLastCompleteAnswerIsKeptForOtherRuns) {
  ProbeRunner(script("")).last_answer();
  ProbeRunner runner(script("read q; echo one; echo .; read q; echo half"));
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_EQ(ask(runner).end, End::crashed);
  auto last = ProbeRunner(script("")).last_answer();
  ASSERT_TRUE(last);
  EXPECT_THAT(last->lines, ElementsAre("one"));
  EXPECT_LT(last->age, Millis(60'000));
}

TEST_F(ProbeRunnerTest, DamagedMemoryOfTheLastAnswerIsNoAnswer) {
  for (const char* text : {"", "\n", "x", "boot 12\none\n", "boot 12\none\n.\n", "boot -3\n.\n"}) {
    std::ofstream(directory_ + "/probe-test.last") << text;
    EXPECT_FALSE(ProbeRunner(script("")).last_answer()) << text;
  }
}

TEST_F(ProbeRunnerTest, WorksWithoutARuntimeDirectory) {
  ProbeOptions options = script("read q; echo one; echo .");
  options.runtime_dir = "";
  ProbeRunner runner(options);
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_FALSE(runner.last_answer());
}

TEST_F(ProbeRunnerTest, ARuntimeDirectoryThatOthersCanWriteIsNeitherBelievedNorUsed) {
  {
    ProbeRunner runner(script("read q; echo one; echo ."));
    EXPECT_EQ(ask(runner).end, End::complete);
    ASSERT_TRUE(runner.last_answer());
    fs::permissions(directory_, fs::perms::others_write, fs::perm_options::add);
    EXPECT_FALSE(runner.last_answer());
  }
  fs::remove(directory_ + "/probe-test.lock");
  ProbeRunner runner(script("read q; echo one; echo ."));
  EXPECT_EQ(ask(runner).end, End::complete);
  EXPECT_FALSE(fs::exists(directory_ + "/probe-test.lock"));
}

TEST_F(ProbeRunnerTest, NoSecondProbeIsAskedWhileTheFirstHasNotAnswered) {
  ProbeOptions slow = script("read q; echo started; read never");
  std::thread first([&] {
    ProbeRunner runner(slow);
    runner.ask("q", Millis(2'000), [&](std::string_view) {
      // The first is in the midst of its answer: now a second one comes.
      ProbeRunner second(script("touch " + directory_ + "/second; read q; echo ."));
      ProbeOutcome outcome = second.ask("q", Millis(100), [](std::string_view) { return std::nullopt; });
      EXPECT_EQ(outcome.end, End::occupied);
      EXPECT_TRUE(outcome.stuck_since);
      EXPECT_FALSE(fs::exists(directory_ + "/second"));
      return Millis(1);
    });
  });
  first.join();
  ProbeRunner after(script("read q; echo ."));
  EXPECT_EQ(ask(after).end, End::complete);
}

// Ctrl-Z: its probe goes on, and is in a session of its own.
TEST_F(ProbeRunnerTest, WhoIsStoppedWhileItAsksKeepsTheLockFromNobody) {
  claim_tests::Child stopped([&](claim_tests::Child& self) {
    ProbeRunner runner(script("read q; echo started; read q; echo .; read more"));
    const auto stops = [&](std::string_view) {
      ::raise(SIGSTOP);
      return Millis(1);
    };
    self.say(runner.ask("q", answer_patience, stops).end == End::timed_out ? 't' : 'n');
    const ProbeOutcome again = runner.ask("q", Millis(100), [](std::string_view) { return std::nullopt; });
    return again.end == End::occupied ? 0 : 1;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(stopped.pid(), &status, WUNTRACED), stopped.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  ProbeRunner other(script("read q; echo mine; echo .; read q; echo its; read never"));
  EXPECT_EQ(ask(other).end, End::complete);
  EXPECT_THAT(lines_, ElementsAre("mine"));
  other.ask("q", answer_patience, [&](std::string_view) {
    ::kill(stopped.pid(), SIGCONT);
    EXPECT_EQ(stopped.hear(), 't');
    EXPECT_EQ(stopped.wait(), 0) << "it takes turns with the others again";
    return Millis(1);
  });
}

TEST_F(ProbeRunnerTest, WhoDropsAnOpenQuestionGivesTheLockBack) {
  ProbeRunner first(script("read q; read never"));
  EXPECT_EQ(first.ask("question", Millis(50), [](std::string_view) { return std::nullopt; }, AnswerFor::all,
                      [] { return true; }).end, End::timed_out);
  first.discard();
  ProbeRunner second(script("read q; echo .; read more"));
  EXPECT_EQ(ask(second, Millis(3'000)).end, End::complete);
}

TEST_F(ProbeRunnerTest, AnAnswerThatDidNotComeInTimeIsKeptForWhoWaits) {
  ProbeRunner runner(script("read q; echo some; exec sleep 1000"));
  EXPECT_EQ(ask(runner, Millis(300)).end, End::timed_out);
  EXPECT_THAT(*read_file(directory_ + "/probe-test.late"), HasSubstr("question\nsome\n.\n"));
  EXPECT_FALSE(runner.last_answer());
}

// How many descriptors of this process are open on a file.
int descriptors_on(const std::string& path) {
  int count = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) count += fs::read_symlink(entry, gone) == path;
  return count;
}

struct KeptAnswer {
  const char* file;
  End end;
};
class ProbeRunnerWaits : public ProbeRunnerTest, public testing::WithParamInterface<KeptAnswer> {};
INSTANTIATE_TEST_SUITE_P(All, ProbeRunnerWaits,
                         testing::Values(KeptAnswer{"last", End::complete}, KeptAnswer{"late", End::timed_out}));

// Also one that did not come in time: many who wait for a driver that hangs do not ask it one by one.
TEST_P(ProbeRunnerWaits, WhoHadToWaitTakesAnAnswerToAQuestionAskedMeanwhile) {
  std::string lock = directory_ + "/probe-test.lock";
  Fd holder = open_at(AT_FDCWD, lock.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(holder.get(), LOCK_EX), 0);
  std::thread waiter([&] {
    ProbeRunner runner({directory_ + "/none", {}, directory_, "probe-test"});  // could not ask itself
    EXPECT_EQ(ask(runner).end, GetParam().end);
  });
  while (descriptors_on(lock) < 2) std::this_thread::yield();                  // it has asked for the lock
  std::string boot = *read_file("/proc/sys/kernel/random/boot_id");
  auto began = std::chrono::duration_cast<Millis>(steady_now().time_since_epoch()).count();
  write_file(directory_ + "/probe-test." + GetParam().file, fmt::format("{} {}\nquestion\nfresh\n.\n", trim(boot), began));
  // The lock may come in the very millisecond of asking only if the clock has not moved on.
  while (std::chrono::duration_cast<Millis>(steady_now().time_since_epoch()).count() < began + 3) std::this_thread::yield();
  holder.reset();
  waiter.join();
  EXPECT_THAT(lines_, ElementsAre("fresh"));
}

// A cgroup of the first version's freezer: what is in it cannot even be killed until it is thawed, like a process in a driver.
class Freezer {
 public:
  Freezer() : path_("/sys/fs/cgroup/freezer/thole-test-" + std::to_string(::getpid())) {
    std::error_code error;
    usable_ = ::geteuid() == 0 && fs::create_directory(path_, error) && fs::exists(path_ + "/freezer.state");
  }
  ~Freezer() {
    thaw();
    for (int i = 0; i < 1'000'000 && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i) std::this_thread::yield();
  }
  bool usable() const { return usable_; }
  const std::string& path() const { return path_; }
  void thaw() const { if (usable_) std::ofstream(path_ + "/freezer.state") << "THAWED"; }

 private:
  std::string path_;
  bool usable_ = false;
};

TEST_F(ProbeRunnerTest, AProbeThatCannotBeKilledIsAbandonedAndNoOtherIsStartedBesideIt) {
  Freezer freezer;
  if (!freezer.usable()) GTEST_SKIP() << "needs root and the freezer of cgroup v1 to make a process that cannot be killed";
  std::string stuck = "read q; echo $$; echo $$ >" + freezer.path() + "/cgroup.procs; echo FROZEN >" + freezer.path() +
                      "/freezer.state; sleep 1000";
  pid_t pid = 0;
  {
    ProbeRunner runner(script(stuck));
    auto begin = steady_now();
    ProbeOutcome outcome = ask(runner, Millis(500));
    EXPECT_LT(steady_now() - begin, Millis(2'000));
    EXPECT_EQ(outcome.end, End::timed_out);
    EXPECT_THAT(outcome.detail, HasSubstr("cannot be killed"));
    ASSERT_EQ(lines_.size(), 1u);
    pid = static_cast<pid_t>(*parse_u64(lines_[0]));
    EXPECT_EQ(::kill(pid, 0), 0);
    // The same run does not start another either.
    EXPECT_EQ(ask(runner).end, End::occupied);
  }
  ProbeRunner later(script("touch " + directory_ + "/second; read q; echo ."));
  auto begin = steady_now();
  ProbeOutcome outcome = ask(later);
  EXPECT_EQ(outcome.end, End::occupied);
  EXPECT_LT(steady_now() - begin, Millis(1'000));                 // known to be abandoned: not waited for
  EXPECT_THAT(outcome.detail, HasSubstr(std::to_string(pid)));
  EXPECT_TRUE(outcome.stuck_since);
  EXPECT_FALSE(fs::exists(directory_ + "/second"));
  freezer.thaw();                                          // the driver lets go: the pending kill ends it, and its lock with it
  while (::kill(pid, 0) == 0 && ::waitpid(pid, nullptr, WNOHANG) <= 0) std::this_thread::yield();
  EXPECT_EQ(ask(later).end, End::complete);
}

}  // namespace
}  // namespace thole::host
