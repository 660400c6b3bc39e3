// Locks of nodes that have lost their names, as root can see them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/claims/init_record.hpp"
#include "host/claims/kernel_locks.hpp"

namespace thole::host {

// A process that has a node's lock: it took it, or has inherited the descriptor.
struct NodeLock {
  std::string node;
  pid_t pid = 0;
};

// Who has one of these nodes locked: by the descriptors of all threads, and by /proc/locks (which lacks, within a pid
// namespace, who is outside of it or has ended). What is listed and seen in no process is somebody's all the same: its
// descriptor is on its way to one. Who makes that list move can have a line of it missed, so `try_lock` goes before it: whether
// the node is locked, where that can be tried. What is seen with that number and is no FIFO of `owner` explains it. What
// `thole init` itself has deleted is no claim (NodeMaker::give_up). No path is believed: anybody can make one of any text in a
// mount namespace of his own.
using TryLock = std::function<std::optional<bool>(const RecordedNode&)>;   // may be empty
std::vector<NodeLock> node_locks(const std::vector<RecordedNode>& nodes, uid_t owner, KernelLocks listed,
                                 const TryLock& try_lock = {});

}  // namespace thole::host
