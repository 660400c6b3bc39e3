// A limit, of this user or of the machine, keeps a process or a thread from being started: one text, one hint, one status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace thole {

// Of processes, memory or descriptors: it says nothing about what was to be started, and passes.
bool is_want(int sys_errno);

// What mends such a want; "" where it is none. Python's _start.py says the same where it meets one itself.
const char* mend_of_want(int sys_errno);

// How a limit of this process is lifted (RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_STACK): with the shell's word as far as its hard
// limit allows, else by root, for the shell that has started us. `needed` may be RLIM_INFINITY.
std::string way_to_raise(int resource, std::uint64_t needed);

// Fewer open files are allowed here than most commands need: what the driver's library, a claim's locks and a line's watches
// take at least. Less would look like sickness somewhere below.
std::optional<Error> too_few_descriptors();

// Less stack is allowed here than we need: the kernel would end us in the midst of something.
std::optional<Error> too_little_stack();

// What mends a failure: where a limit of files' sizes is why (EFBIG), how that is lifted; else the error's own hint.
std::string hint_of(const Error& error);

// "{what}: {why}", of a descriptor that everybody can have; `unavailable` where it is a want.
Error not_had(const std::string& what, int sys_errno);

// "cannot start {what}: {why}", and what mends it; `unavailable`.
Error not_started(const std::string& what, int sys_errno);

// The same of a thread: without room for its stack it is refused in the words for too many processes, so that is looked at.
Error thread_not_started(int sys_errno);

// For a std::bad_alloc: `unavailable`.
Error out_of_memory();

}  // namespace thole
