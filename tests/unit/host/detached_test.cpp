#include "host/process/detached.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

BareCommand sh(const std::string& script) { return {{"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin"}}; }

pid_t reported_parent(pid_t pid) {
  const auto process = read_process(pid);
  return process ? process->parent : 0;
}

class AsSubreaper {
 public:
  AsSubreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~AsSubreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

// A child with a child of its own.
struct TwoBelow {
  pid_t child = 0, grandchild = 0;

  TwoBelow() {
    const Pipe told = make_pipe();
    child = ::fork();
    if (child == 0) {
      const pid_t below = ::fork();
      if (below > 0 && ::write(told.write.get(), &below, sizeof below) != sizeof below) ::_exit(1);
      for (;;) ::pause();
    }
    if (::read(told.read.get(), &grandchild, sizeof grandchild) != sizeof grandchild) throw std::runtime_error("no family");
  }
  ~TwoBelow() {
    for (const pid_t pid : {child, grandchild}) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
};

TEST(Detached, WhoIsGivenWhatItsTasksLeaveIsGivenItMeanwhileToo) {
  const AsSubreaper we_are;
  const TwoBelow family;
  run_detached(sh(fmt::format("kill -9 {0}; while grep -q '^PPid:.{0}$' /proc/{1}/status; do :; done", family.child,
                                 family.grandchild)));
  EXPECT_EQ(reported_parent(family.grandchild), ::getpid());
}

TEST(Detached, WhatGoesOnIsNeverOurs) {
  const AsSubreaper we_are;
  const auto goes_on = run_detached(sh("sleep 1000 <&- 2> /dev/null & echo $! >&0"));
  ASSERT_TRUE(goes_on);
  const pid_t parent = reported_parent(*goes_on);
  ::kill(*goes_on, SIGKILL);
  EXPECT_NE(parent, 0);
  EXPECT_NE(parent, ::getpid());
}

TEST(Detached, HowTheFirstProcessEndedIsToldAlsoBySomebodyElse) {
  const AsSubreaper we_are;
  EXPECT_NO_THROW(run_detached(sh("exit 0")));
  try {
    run_detached(sh("echo no room >&2; exit 3"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.full().find("no room"), std::string::npos) << error.full();
  }
  EXPECT_THROW(run_detached({{"/no/such/program"}, {}}), Error);
  EXPECT_THROW(run_detached(sh("kill -9 $PPID; kill -9 $$")), Error) << "killed with what it started";
}

// A lock that a killed lane had is free at once.
TEST(Detached, WhatIsOursIsKeptOpenByNobodyElse) {
  const AsSubreaper we_are;
  const Pipe ours = make_pipe();
  EXPECT_NO_THROW(run_detached(sh(fmt::format("! test -e /proc/$PPID/fd/{0} && ! test -e /proc/$$/fd/{0}", ours.write.get()))));
}

}  // namespace
}  // namespace thole::host
