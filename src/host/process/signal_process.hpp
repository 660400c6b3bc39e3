// A signal to one process of a picture of /proc, and to no other.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "host/process/tree.hpp"

namespace thole::host {

// Through a pidfd, so that a pid reused since the picture was taken is not hit.
void signal_process(const ProcessStat& process, int signal);

// SIGSTOP for a tree of processes that may fork meanwhile. A fork that had begun when the signal came still makes a child, and
// no picture shows that before its parent has stopped (copy_process() in the kernel's kernel/fork.c looks for signals first and
// attaches the child last): so looks go on until one that follows a picture of stopped processes shows nobody new.
class Stopping {
 public:
  // Stops those of the picture that it has not met; true when nothing can be left.
  bool look(const std::vector<ProcessStat>& picture);

 private:
  std::set<std::pair<pid_t, std::uint64_t>> met_;   // pid and start
  bool were_stopped_ = false;                       // all of the picture before
};

}  // namespace thole::host
