// Children of this process that its own work needs, such as the probe of a driver: no part of what a command has left behind.
// Who starts one says so, and waits for it; nobody else signals it or reaps it.
//
// Without a lock, so that a fork of a program with threads finds nothing locked for good.
#pragma once

#include <sys/types.h>

namespace thole::host {

// While it lives a child may be there that is not known yet: posix_spawn() returns once the child has begun its program.
class StartingHelper {
 public:
  StartingHelper();
  ~StartingHelper();
  StartingHelper(const StartingHelper&) = delete;
  StartingHelper& operator=(const StartingHelper&) = delete;
  void started(pid_t pid);
};

void helper_ended(pid_t pid);   // reaped
bool is_helper(pid_t pid);
bool is_helper_starting();

// Nothing where it is no child of ours any more: the program that we are in has waited for it, and its number may be another's.
void kill_child(pid_t pid);

}  // namespace thole::host
