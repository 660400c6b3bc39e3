// Children that have ended, and how their parent tells whose they are.
#include "host/queue/runners_children.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "host/process/identity.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// It has ended when this returns, and is not buried.
pid_t buried_by_nobody(int status, const char* name = "command") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_NAME, name);
    ::_exit(status);
  }
  siginfo_t seen{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOWAIT), 0);
  return pid;
}

bool is_child(pid_t pid) {
  siginfo_t seen{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOHANG | WNOWAIT) == 0;
}

TEST(RunnersChildren, HowOneEndedIsKnownUntilItIsBuried) {
  RunnersChildren children;
  const pid_t pid = buried_by_nobody(7);
  for (int look = 0; look < 2; ++look) {
    const auto seen = children.look(pid);
    EXPECT_TRUE(seen.is_ours);
    ASSERT_TRUE(seen.ended);
    EXPECT_EQ(seen.ended->exit_code, 7);
  }
  children.bury(pid);
  EXPECT_FALSE(children.look(pid).is_ours);
  EXPECT_FALSE(children.look(::getppid()).is_ours);
  EXPECT_FALSE(children.look(0).is_ours);
}

TEST(RunnersChildren, ACommandIsKnownByItsStartAndALaneIsNone) {
  RunnersChildren children;
  const pid_t pid = buried_by_nobody(7);
  const model::ProcessIdentity its = identity_of_child(pid);
  ASSERT_NE(its.start_ticks, 0u);
  EXPECT_TRUE(children.look_at_command(pid, its).ended);
  EXPECT_FALSE(children.look_at_command(pid, {its.start_ticks - 100, 0}).is_ours) << "another that had its number";
  EXPECT_TRUE(children.look_at_command(pid, {}).ended) << "its lane was killed before it could note who it is";
  children.bury(pid);
  const pid_t lane = buried_by_nobody(0, lane_process_name);
  EXPECT_FALSE(children.look_at_command(lane, {}).is_ours);
  EXPECT_TRUE(children.look(lane).ended);
  children.bury(lane);
}

TEST(RunnersChildren, OthersAreBuriedAtTheSecondCallAndWhoIsAskedForIsNot) {
  if (!listed_children()) GTEST_SKIP() << "this kernel lists no children";
  RunnersChildren children;
  const pid_t asked_for = buried_by_nobody(1), other = buried_by_nobody(2);
  children.bury_others({&asked_for, 1});
  EXPECT_TRUE(is_child(other)) << "who asks for it may not know of it yet";
  children.bury_others({&asked_for, 1});
  EXPECT_FALSE(is_child(other));
  EXPECT_TRUE(is_child(asked_for));
  children.bury(asked_for);
}

}  // namespace
}  // namespace thole::host
