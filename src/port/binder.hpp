// Port: the CPUs and memory nodes that processes have by the kernel's account, and binding one that runs already.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/bound.hpp"
#include "model/cpu_set.hpp"

namespace thole::port {

// The memory nodes this process may use (cpuset), or the errno that keeps it from memory policies: EPERM in a container
// without CAP_SYS_NICE, ENOSYS on a kernel without NUMA.
struct MemoryAccess {
  std::vector<int> nodes;
  int refused = 0;
};

// A running process after it was bound: the masks its threads have now, and how many have each.
struct BoundProcess {
  std::vector<std::pair<model::CpuSet, std::size_t>> masks;
  std::size_t threads = 0;
};

class Binder {
 public:
  virtual ~Binder() = default;

  // The CPUs this process was started with: inherited, and cut by its cpuset.
  virtual model::CpuSet allowed_cpus() = 0;
  virtual MemoryAccess memory() = 0;

  // The variables a process was started with; none where they may not be read.
  virtual std::map<std::string, std::string> environment_of(pid_t pid) = 0;

  // Sets the mask of every thread of a process, again until no new thread appears, and reads them back. The kernel cuts the
  // mask to the process's cpuset. Throws Error(usage) for no such process, Error(unavailable) when it may not be bound.
  virtual BoundProcess bind_process(pid_t pid, const model::CpuSet& cpus) = 0;
};

}  // namespace thole::port
