// What the kernel says about locks and processes: /proc/locks, /proc/PID/stat, the boot id.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/claims/layout.hpp"

namespace thole::host {

// One flock in force, by the pid that took it (it stays named after its death, while a child has the descriptor). Locks of
// other pid namespaces are not listed.
struct KernelLock {
  std::uint64_t dev = 0, ino = 0;
  pid_t pid = 0;
  bool exclusive = false;
};

// /proc/locks, flocks only, waiters left out. Empty when it cannot be read.
std::vector<KernelLock> kernel_locks();
std::vector<KernelLock> parse_kernel_locks(std::string_view text);

// The pids that hold a flock of this open file.
std::vector<pid_t> lockers_of(const std::vector<KernelLock>& locks, int fd);

// The process as it is now: start time (clock ticks since boot), state letter, effective uid; nothing when there is none.
struct ProcessState {
  std::uint64_t start = 0;
  char state = '?';
  uid_t uid = 0;
  std::string name;
};
std::optional<ProcessState> process_state(pid_t pid);

// Who took a lock, as far as the kernel tells: the first of `lockers`. Without a pid nobody is named: there is none (he is in
// another pid namespace), or no process has his number any more (a child of his holds on).
struct Taker {
  pid_t pid = 0;
  std::optional<uid_t> uid;              // absent where /proc hides him and the kernel is older than Linux 6.13
  std::optional<std::uint64_t> start;    // absent where /proc hides him
};
Taker taker_among(const std::vector<pid_t>& lockers);

// This process, with the boot id.
ProcessIdentity own_identity();

}  // namespace thole::host
