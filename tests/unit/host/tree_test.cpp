// What lives below us, whose it is and what can be told of it; a signal to all of it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"
#include "host/process/waits_for_exec.hpp"

namespace thole::host {
namespace {

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
  for (const std::string& word : {std::string(), std::string("x"), "7.0." + hash + "@/q", "7.0.1." + hash,
                                  "7.0.1." + hash + "@", "7.0.1." + hash + "@q", std::string("7.0.1.abc@/q"),
                                  "7.x.1." + hash + "@/q"})
    EXPECT_FALSE(is_mark_of_a_task(word)) << word;
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

}  // namespace
}  // namespace thole::host
