#include "host/process/local_processes.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "host/process/spawn.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// Our children now. Almost always none, and then /proc is not searched.
std::vector<pid_t> children_now() {
  siginfo_t any = {};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return {};
  std::vector<pid_t> children;
  for (const auto& process : our_descendants())
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

}  // namespace

void LocalProcesses::check_program(const port::ProcessSpec& spec) const {
  port::ProcessSpec there = spec;
  std::string& program = there.argv.at(0);
  if (!spec.cwd.empty() && program.find('/') != std::string::npos && !program.starts_with('/'))
    program = spec.cwd + "/" + program;
  Launch(there, inherited_).check_program();
}

pid_t LocalProcesses::start(const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  witness_.reset();
  before_ = {children_now(), ticks_now()};
  auto blocked = std::make_unique<AllSignalsBlocked>();
  ::signal(SIGCHLD, SIG_DFL);               // ignored, the kernel would keep the command's status from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);       // before it can leave anything behind
  witness_ = std::make_unique<Witness>();   // before any signal can be meant for the command
  cgroup_ = std::make_unique<JobCgroup>("");
  pid_t pid = launch.start(cgroup_->directory());
  blocked_ = std::move(blocked);
  return pid;
}

port::Ended LocalProcesses::supervise(pid_t pid, const port::SupervisePolicy& policy) {
  if (!blocked_) blocked_ = std::make_unique<AllSignalsBlocked>();
  if (!witness_) witness_ = std::make_unique<Witness>();
  if (!cgroup_) cgroup_ = std::make_unique<JobCgroup>();
  auto ended = supervise_command(pid, policy, inherited_, before_, *witness_, *cgroup_);
  cgroup_->remove();
  blocked_.reset();
  return ended;
}

void LocalProcesses::end_as(const port::Ended& ended) {
  if (ended.signal) die_by(*ended.signal);
  std::exit(ended.exit_code.value_or(125));
}

void LocalProcesses::become(const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  launch.become();
}

}  // namespace thole::host
