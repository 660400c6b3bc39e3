// The supervisor: a small process beside the command, from its start to the end of everything it started.
//
// How it works. The command runs in our terminal and process group, so what a terminal sends reaches it without us. All signals
// are blocked here and read from a signalfd; one that was sent to us alone (see witness.hpp) is passed on, any other is
// dropped. A command that stops itself stops us by the same signal, so that a shell sees one job; `fg` continues both. As
// subreaper we inherit what the command leaves behind, also daemons that left the session. Killed outright (SIGKILL) we take
// nothing with us: the command goes on and its copies of the locks keep the claim.
//
// The end of a command, by its limit or because the claim is asked back: INT to those of its tree in its process group, as
// Ctrl-C would; `patience` later TERM, then KILL, to the whole tree, by its cgroup where it has one of its own
// (job_cgroup.hpp). A supervisor that is itself stopped enforces nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "host/process/job_cgroup.hpp"
#include "host/process/signals.hpp"
#include "host/process/witness.hpp"
#include "port/processes.hpp"

namespace thole::host {

// What was there before the command.
struct FromBefore {
  std::vector<pid_t> children;       // of ours (an abandoned probe): they are left alone
  std::uint64_t ticks = 0;           // ticks_now() then
};

// All signals must be blocked. The witness is dismissed when the command has ended.
port::Ended supervise_command(pid_t command, const port::SupervisePolicy& policy, const InheritedSignals& inherited,
                              const FromBefore& before, Witness& witness, JobCgroup& cgroup);

}  // namespace thole::host
