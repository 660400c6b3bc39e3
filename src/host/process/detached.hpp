// A program that is to outlive us and have nothing to do with us: the runner of a queue, a notification.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace thole::host {

struct BareCommand {
  std::vector<std::string> argv;                 // argv[0] is a path
  std::vector<std::string> environment;          // "NAME=value": all it gets
};

// Runs it without anything of ours, in a session of its own; returns when its first process has ended, which must not take long
// (a minute is too long). Throws Error(unavailable) with what it said when that ended with another status than 0. Returns the
// process that goes on, where the first one has told it (tell_starter).
//
// What goes on is given to somebody above us, not to us, also where we are whom the kernel gives what is left below us (a
// subreaper: a lane, whose tasks may leave something at any moment). So from there the first process is started by a sibling of
// ours, which alone waits for it.
std::optional<pid_t> run_detached(const BareCommand& command);

// By the first process of such a command, of another one that it has made.
void tell_starter(pid_t goes_on);

}  // namespace thole::host
