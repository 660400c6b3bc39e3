// A limit, of this user or of the machine, keeps a process or a thread from being started: one text, one hint, one status.
#pragma once

#include <string>

#include "base/error.hpp"

namespace thole {

// Of processes, memory or descriptors: it says nothing about what was to be started, and passes.
bool is_want(int sys_errno);

// What mends such a want; "" where it is none. Python's _start.py says the same where it meets one itself.
const char* mend_of_want(int sys_errno);

// "cannot start {what}: {why}", and what mends it; `unavailable`.
Error not_started(const std::string& what, int sys_errno);

}  // namespace thole
