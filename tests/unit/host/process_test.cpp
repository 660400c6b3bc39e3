// Looking up programs, their environment, reading /proc, and starting with a mask, a directory and kept descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "app/claim/command_life.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/clock/system_clock.hpp"
#include "host/process/foreground.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/spawn.hpp"
#include "host/process/tree.hpp"
#include "host/process/waits_for_exec.hpp"

namespace thole::host {
namespace {

using Words = std::vector<std::string>;

TEST(PathsToTry, AreThoseOfExecvp) {
  EXPECT_EQ(paths_to_try("python", "/usr/bin:/bin"), (Words{"/usr/bin/python", "/bin/python"}));
  EXPECT_EQ(paths_to_try("./python", "/usr/bin:/bin"), (Words{"./python"}));
  EXPECT_EQ(paths_to_try("sub/python", "/usr/bin"), (Words{"sub/python"}));
  EXPECT_EQ(paths_to_try("python", ":/bin:"), (Words{"python", "/bin/python", "python"}));  // an empty entry is here
  EXPECT_EQ(paths_to_try("", "/bin"), (Words{""}));
}

TEST(JobEnvironment, SetsAndUnsetsOnTopOfTheCallers) {
  const char* base[] = {"HOME=/home/a", "CUDA_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=2", "CUDA=x", "odd", nullptr};
  port::ProcessSpec spec;
  spec.set = {{"CUDA_VISIBLE_DEVICES", "3"}, {"EMPTY", ""}};
  spec.unset = {"ROCR_VISIBLE_DEVICES", "NOT_THERE"};
  EXPECT_EQ(job_environment(base, spec), (Words{"HOME=/home/a", "CUDA=x", "odd", "CUDA_VISIBLE_DEVICES=3", "EMPTY="}));
  EXPECT_EQ(job_environment(nullptr, {}), Words{});
}

// Each of them ends at once and has left another one: whoever was read has ended, and there is always one that was not.
TEST(GroupsBelow, EndWhoForksWithoutEnd) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Pipe begun = make_pipe();
  const pid_t first = ::fork();
  if (first == 0) {
    ::setsid();
    for (static_cast<void>(write_all(begun.write.get(), "x"));;)
      if (::fork() != 0) ::_exit(0);
  }
  char byte = 0;
  EXPECT_EQ(::read(begun.read.get(), &byte, 1), 1);
  ProcessStat seen, other;
  seen.pid = seen.group = first;
  other.pid = ::getpid();
  GroupsBelow groups;
  groups.saw({seen}, {other});
  const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool gone = false;
  for (; !gone && std::chrono::steady_clock::now() < late;) {
    groups.kill();
    gone = ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  }
  EXPECT_TRUE(gone);
  if (!gone) ::kill(-first, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {}
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// A group of `ended`, who stays unwaited for, and `bystander`.
class TwoOfAGroup {
 public:
  explicit TwoOfAGroup(bool own_session) {
    Pipe made = make_pipe();
    leader_ = ::fork();
    if (leader_ == 0) {
      own_session ? static_cast<void>(::setsid()) : static_cast<void>(::setpgid(0, 0));
      const pid_t other = ::fork();
      if (other == 0)
        for (;;) ::pause();
      static_cast<void>(write_all(made.write.get(), std::string_view(reinterpret_cast<const char*>(&other), sizeof other)));
      ::_exit(0);
    }
    EXPECT_EQ(::read(made.read.get(), &bystander_, sizeof bystander_), static_cast<ssize_t>(sizeof bystander_));
    siginfo_t how{};
    ::waitid(P_PID, static_cast<id_t>(leader_), &how, WEXITED | WNOWAIT);
  }
  ~TwoOfAGroup() {
    ::kill(bystander_, SIGKILL);
    ::waitpid(leader_, nullptr, 0);
    ::waitpid(bystander_, nullptr, 0);
  }
  ProcessStat leader() const {
    ProcessStat seen;
    seen.pid = seen.group = leader_;
    return seen;
  }
  ProcessStat bystander() const {
    ProcessStat seen;
    seen.pid = bystander_;
    seen.group = leader_;
    return seen;
  }
  // By what it ends, if not by that which was sent before: SIGTERM.
  int ends_by() const {
    ::kill(bystander_, SIGTERM);
    siginfo_t how{};
    return ::waitid(P_PID, static_cast<id_t>(bystander_), &how, WEXITED | WNOWAIT) == 0 ? how.si_status : -1;
  }

 private:
  pid_t leader_ = -1, bystander_ = -1;
};

TEST(GroupsBelow, LeaveAGroupOfOurSessionAndThoseOfOthers) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  {
    TwoOfAGroup ours(false);
    GroupsBelow groups;
    groups.saw({ours.leader()}, {});
    groups.kill();
    EXPECT_EQ(ours.ends_by(), SIGTERM) << "anybody of our session may be in it";
    TwoOfAGroup theirs(true);
    GroupsBelow with_another;
    with_another.saw({theirs.leader()}, {theirs.bystander()});
    with_another.kill();
    EXPECT_EQ(theirs.ends_by(), SIGTERM);
    TwoOfAGroup its(true);
    GroupsBelow alone;
    alone.saw({its.leader()}, {});
    alone.kill();
    EXPECT_EQ(its.ends_by(), SIGKILL);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(MarkOfATask, HasAForm) {
  const std::string hash = "0123456789abcdef";
  EXPECT_TRUE(is_mark_of_a_task("7.0.1." + hash + "@/home/a/queue"));
  EXPECT_TRUE(is_mark_of_a_task("7.0.1." + hash + "@" + hash + "@/home/a/queue"));
  const Words others{"", "x", "7.0." + hash + "@/q", "7.0.1." + hash, "7.0.1." + hash + "@", "7.0.1." + hash + "@q",
                     "7.0.1.abc@/q", "7.x.1." + hash + "@/q"};
  for (const std::string& word : others) EXPECT_FALSE(is_mark_of_a_task(word)) << word;
}

TEST(ParseProcessStat, ReadsNamesWithSpacesAndParentheses) {
  const std::string rest = " S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
  auto process = parse_process_stat("123 (a) b) (c" + std::string(")") + rest);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 123);
  EXPECT_EQ(process->name, "a) b) (c");
  EXPECT_EQ(process->state, 'S');
  EXPECT_EQ(process->parent, 1);
  EXPECT_EQ(process->group, 77);
  EXPECT_EQ(process->start_ticks, 4242u);
}

TEST(ParseProcessStat, RefusesWhatIsTornOrNone) {
  for (const char* text : {"", "123", "123 (a", "123 a) S 1 1", ") (", "x (a) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9",
                           "1 (a) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 x"})
    EXPECT_FALSE(parse_process_stat(text)) << text;
}

TEST(Tree, FindsGrandchildrenParentsFirst) {
  Pipe ready = make_pipe(), end = make_pipe();
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pid_t grandchild = ::fork();
    if (grandchild > 0) static_cast<void>(::write(ready.write.get(), &grandchild, sizeof grandchild));
    end.write.reset();
    char byte;
    static_cast<void>(::read(end.read.get(), &byte, 1));
    if (grandchild > 0) ::waitpid(grandchild, nullptr, 0);
    ::_exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(ready.read.get(), &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  std::vector<pid_t> found;
  for (const auto& process : our_descendants()) found.push_back(process.pid);
  EXPECT_EQ(found, (std::vector<pid_t>{child, grandchild}));
  end.write.reset();
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(our_descendants().empty());
}

// A killed lane that is on its way out: its memory has gone, and its tasks are its children still. One whose first thread alone
// has ended shows the same.
TEST(Tree, WhatIsBelowALaneThatIsEndingIsNotOurs) {
  Pipe ready = make_pipe(), end = make_pipe();
  const pid_t lane = ::fork();
  ASSERT_GE(lane, 0);
  if (lane == 0) {
    be_known_as(lane_process_name);
    end.write.reset();
    const auto stays = [&] {
      char byte;
      static_cast<void>(::read(end.read.get(), &byte, 1));
      ::_exit(0);
    };
    if (::fork() == 0) stays();
    std::thread(stays).detach();
    static_cast<void>(::write(ready.write.get(), "", 1));
    ::syscall(SYS_exit, 0);                                // this thread alone
  }
  char byte;
  ASSERT_EQ(::read(ready.read.get(), &byte, 1), 1);
  while (::readlink(fmt::format("/proc/{}/exe", lane).c_str(), &byte, 1) >= 0) std::this_thread::yield();
  EXPECT_TRUE(our_descendants().empty());
  end.write.reset();
  ::waitpid(lane, nullptr, 0);
}

// Our standard output is this descriptor while it lives.
class RedirectedOutput {
 public:
  explicit RedirectedOutput(const Fd& to) : saved_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(stdout);
    ::dup2(to.get(), STDOUT_FILENO);
  }
  ~RedirectedOutput() { ::dup2(saved_.get(), STDOUT_FILENO); }
  RedirectedOutput(const RedirectedOutput&) = delete;

 private:
  Fd saved_;
};

// Commands in our terminal, one after the other.
class Living {
 public:
  void begin(const port::ProcessSpec& spec) {
    life_.emplace(commands_, clock_, 0, plan::Manner{}, app::LifeEvents{});
    life_->begin(spec);
  }

  port::Ended end() {
    while (!life_->is_over()) {
      for (const port::CommandEvent& event : commands_.wait(life_->deadline())) life_->heard(event);
      life_->passed();
    }
    return life_->ended();
  }

  port::Ended live(const port::ProcessSpec& spec) {
    begin(spec);
    return end();
  }

 private:
  const InheritedSignals inherited_ = InheritedSignals::capture();
  SystemClock clock_;
  Foreground commands_{inherited_};
  std::optional<app::CommandLife> life_;
};

// What a command wrote to its standard output, and how it ended.
struct Outcome { std::string output; int status; };

Outcome outcome_of(const port::ProcessSpec& spec) {
  Pipe output = make_pipe();
  Living living;
  {
    RedirectedOutput redirected(output.write);
    living.begin(spec);
  }
  output.write.reset();
  const port::Ended ended = living.end();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(output.read.get(), buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  return {text, ended.exit_code.value_or(-1)};
}

port::ProcessSpec command(Words argv) {
  port::ProcessSpec spec;
  spec.argv = std::move(argv);
  return spec;
}

TEST(Start, AppliesDirectoryAndVariables) {
  auto spec = command({"sh", "-c", "pwd; echo $WORD"});
  spec.cwd = "/usr/lib";
  spec.set["WORD"] = "set";
  EXPECT_EQ(outcome_of(spec).output, "/usr/lib\nset\n");
}

TEST(Start, LooksProgramsUpInTheNewPath) {
  auto spec = command({"sh", "-c", "exit 3"});
  spec.set["PATH"] = "/no/such:/bin";
  EXPECT_EQ(outcome_of(spec).status, 3);
  spec.set["PATH"] = "/no/such";
  EXPECT_THROW(outcome_of(spec), Error);
}

TEST(Start, BindsToTheCpusBeforeTheProgramRuns) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  unsigned last = 0;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  auto spec = command({"sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
  spec.binding.cpus.emplace();
  spec.binding.cpus->add(last);
  EXPECT_EQ(outcome_of(spec).output, fmt::format("Cpus_allowed_list:\t{}\n", last));
  EXPECT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
}

TEST(Start, KeptDescriptorsArriveAtTenAndAboveAndNoOthers) {
  auto spec = command({"sh", "-c", "ls /proc/$$/fd"});
  const std::string before = outcome_of(spec).output;  // what this test was started with
  Pipe pipe = make_pipe();
  spec.keep = {pipe.read.get(), pipe.write.get()};
  const std::string after = outcome_of(spec).output;
  std::vector<std::string_view> more;
  const auto old = split_lines(before);
  for (auto number : split_lines(after))
    if (std::ranges::find(old, number) == old.end()) more.push_back(number);
  ASSERT_EQ(more.size(), 2u) << after;
  for (auto number : more) EXPECT_GE(*parse_u64(number), 10u);
}

struct Refusal { const char* name; port::ProcessSpec spec; ErrorCode code; const char* message; };

TEST(Start, SaysWhyItCannot) {
  auto in_directory = command({"true"});
  in_directory.cwd = "/no/such/directory";
  auto on_cpus = command({"true"});
  on_cpus.strict = true;
  on_cpus.binding.cpus.emplace();
  on_cpus.binding.cpus->add(4095);
  auto with_closed = command({"true"});
  with_closed.keep = {987};
  const Refusal table[] = {
      {"missing", command({"no-such-program-here"}), ErrorCode::not_found, "no such command"},
      {"path", command({"/no/such/program"}), ErrorCode::not_found, "no such command"},
      {"directory", command({"/tmp"}), ErrorCode::not_executable, "cannot run"},
      {"not executable", command({"/etc/passwd"}), ErrorCode::not_executable, "cannot run"},
      {"empty", command({""}), ErrorCode::not_found, "no such command"},
      {"nothing", command({}), ErrorCode::usage, "no command"},
      {"cwd", in_directory, ErrorCode::unavailable, "working directory"},
      {"cpus", on_cpus, ErrorCode::unavailable, "CPUs"},
      {"descriptor", with_closed, ErrorCode::internal, "claim"},
  };
  for (const auto& row : table) {
    try {
      Living().begin(row.spec);
      ADD_FAILURE() << row.name << " started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << row.name;
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << row.name << ": " << error.what();
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << row.name << " left a child";
  }
}

// The child could not tell of it, and its end would be taken for the command's own.
TEST(Start, ACommandThatCannotBeStartedForWantOfDescriptorsIsNotTakenForOneThatHasRun) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Living living;
  auto spec = command({"true"});
  spec.keep = {STDIN_FILENO};                    // as of a claim: the child needs a descriptor more than we
  unsigned refused = 0;
  for (rlim_t room = 3; room < 64; ++room) {
    const rlimit few{room, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::optional<Error> why;
    try {
      living.begin(spec);
    } catch (const Error& error) {
      why = error;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    if (!why) {
      ASSERT_EQ(living.end().exit_code, 0) << room;   // which also lets signals in again
      continue;
    }
    ++refused;
    EXPECT_EQ(why->code(), ErrorCode::unavailable) << room;
    EXPECT_EQ(why->sys_errno(), EMFILE) << room;
    EXPECT_EQ(why->hint(), mend_of_want(EMFILE)) << room;
  }
  EXPECT_GT(refused, 0u);
}

TEST(Foreground, TellsHowTheCommandEnded) {
  Living living;
  port::Ended ended = living.live(command({"sh", "-c", "exit 42"}));
  EXPECT_EQ(ended.exit_code, 42);
  EXPECT_FALSE(ended.signal);
  ended = living.live(command({"sh", "-c", "kill -TERM $$"}));
  EXPECT_EQ(ended.signal, SIGTERM);
  EXPECT_FALSE(ended.exit_code);
  EXPECT_FALSE(ended.time_limit);
}

// For a moment of an execve(2) the kernel shows neither environment nor command line.
// What it shows is read in pieces where it is long, and of a memory that it has left nothing more is shown.
class AtExec : public testing::TestWithParam<std::size_t> {};

TEST_P(AtExec, ShowsHisClaimAllTheSame) {
  const std::string before = "BEFORE=" + std::string(GetParam(), 'x');
  const pid_t again_and_again = ::fork();
  if (again_and_again == 0) {
    const char* const words[] = {"sh", "-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\"", nullptr};
    const char* const environment[] = {before.c_str(), before.c_str(), "THOLE_CLAIM=4711", nullptr};
    ::execve("/bin/sh", const_cast<char* const*>(words), const_cast<char* const*>(environment));
    ::_exit(127);
  }
  const SteadyTime late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto is_shown = [&] { return environment_of(again_and_again).word("THOLE_CLAIM=") == "4711"; };
  while (!is_shown() && std::chrono::steady_clock::now() < late) ::sched_yield();
  unsigned missed = 0;
  for (unsigned look = 0; look < 5'000; ++look) missed += !is_shown();
  ::kill(again_and_again, SIGKILL);
  ::waitpid(again_and_again, nullptr, 0);
  EXPECT_EQ(missed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Processes, AtExec, testing::Values(0, 100'000));

TEST(Processes, WhoHasNoEnvironmentIsNotWaitedFor) {
  const pid_t none = ::fork();
  if (none == 0) {
    const char* const words[] = {"sleep", "600", nullptr};
    const char* const environment[] = {nullptr};
    ::execve("/bin/sleep", const_cast<char* const*>(words), const_cast<char* const*>(environment));
    ::_exit(127);
  }
  while (read_process(none).value_or(ProcessStat{}).name != "sleep") ::sched_yield();
  const ShownEnvironment shown = environment_of(none);
  EXPECT_TRUE(shown.words.empty() && shown.why == 0);
  ::kill(none, SIGKILL);
  ::waitpid(none, nullptr, 0);
}

TEST(Processes, ManyThatAreAtExecForEverAreNotWaitedForOneByOne) {
  SteadyTime now{};
  WaitsForExec waits(now);
  const auto wait = [&](Millis time) {
    if (!waits.may_wait(now)) return false;
    now += time;
    waits.has_waited(time);
    return true;
  };
  for (unsigned look = 0; look < 1000; ++look) EXPECT_TRUE(wait(Millis{10})) << "what an exec mostly takes costs nothing";
  unsigned waited = 0;
  while (waited < 100 && wait(Millis{1000})) ++waited;
  EXPECT_EQ(waited, 5u) << "three seconds, and a quarter of what has passed";
  EXPECT_FALSE(wait(Millis{1000}));
  now += Millis{4000};
  EXPECT_TRUE(wait(Millis{1000}));
}

TEST(Processes, AStartIsTheSameWithinATick) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4711}, ~std::uint64_t{0}}) {
    EXPECT_TRUE(is_same_start(start, start) && is_same_start(start, start + 1) && is_same_start(start + 1, start));
    EXPECT_FALSE(is_same_start(start, start + 2) || is_same_start(start + 2, start) || is_same_start(start, start / 2 + 9));
  }
}

TEST(Foreground, LeavesChildrenFromBeforeAlone) {
  Pipe end = make_pipe();
  pid_t stranger = ::fork();
  if (stranger == 0) {
    end.write.reset();
    char byte;
    ::_exit(static_cast<int>(::read(end.read.get(), &byte, 1)));
  }
  const port::Ended ended = Living().live(command({"true"}));
  EXPECT_TRUE(ended.left_behind.empty());
  EXPECT_EQ(::waitpid(stranger, nullptr, WNOHANG), 0) << "it lives";
  end.write.reset();
  EXPECT_EQ(::waitpid(stranger, nullptr, 0), stranger);
}

TEST(Foreground, RestoresTheMaskOfSignals) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Living living;
  living.live(command({"true"}));
  EXPECT_THROW(living.begin(command({"no-such-program-here"})), Error);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
}

TEST(Interruption, HoldsSignalsBackForItsDescriptor) {
  Interruption interruption(InheritedSignals::capture());
  EXPECT_FALSE(interruption.taken());
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(interruption.taken(), SIGTERM);
  EXPECT_FALSE(interruption.taken());
}

}  // namespace
}  // namespace thole::host
