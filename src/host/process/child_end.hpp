// How a child has ended, before it is buried or with it.
#pragma once

#include <sys/wait.h>

#include <optional>

#include "model/command.hpp"

namespace thole::host {

struct ChildEnd {
  pid_t pid = 0;
  model::HowEnded how;
};

// Of one child, or with P_ALL any, that has ended and is not buried by this. Nothing: none has, or there is none
// (`errno` is ECHILD then, else 0).
std::optional<ChildEnd> ended_child(idtype_t which, pid_t pid);

model::HowEnded how_ended(const siginfo_t& seen);
void bury_child(pid_t pid);                      // which has ended

}  // namespace thole::host
