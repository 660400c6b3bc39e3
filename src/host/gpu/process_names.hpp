// Who runs the processes on the GPUs, and what they are called.
#pragma once

#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

// Fills `user`, `uid` and `command` of every process of the GPUs and their instances from /proc/<pid>. What cannot be seen
// (hidepid, a process that has just ended) stays "". Not for pids of another pid namespace: they would name somebody else.
void name_processes(const Tree& tree, std::vector<model::Gpu>& gpus);

}  // namespace thole::host
