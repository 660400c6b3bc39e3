// Locks of nodes as /proc shows them to root, whatever has become of their names.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "host/claims/init_record.hpp"

namespace thole::host {

// A process that has a node's lock: it took it, or has inherited the descriptor.
struct NodeLock {
  std::string node;
  pid_t pid = 0;
};

// Looks through /proc for descriptors of these nodes that have a lock. What `thole init` itself has deleted is no claim
// (NodeMaker::give_up). No path is believed: anybody can make one of any text in a mount namespace of his own. Root sees
// all processes of its pid namespace, others see their own.
std::vector<NodeLock> node_locks(const std::vector<RecordedNode>& nodes);

}  // namespace thole::host
