// Locks of the directory's nodes as /proc shows them to root, whatever has become of their names.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace thole::host {

// A process that has a node's lock: it took it, or has inherited the descriptor.
struct NodeLock {
  std::string node;       // the name it has or had
  pid_t pid = 0;
  std::uint64_t ino = 0;
  bool lost = false;      // the name is gone: deleted, or another file system lies over it
};

// Looks through /proc for descriptors of nodes that have a lock. What `thole init` itself has deleted is no claim
// (NodeMaker::give_up). Anybody can make a path of any text in a mount namespace of his own: a node is a FIFO of the
// directory's owner on one of the file systems that the directory has lain on (`devices`, the present one last). Root sees
// all processes of its pid namespace, others see their own.
std::vector<NodeLock> node_locks(uid_t owner, const std::vector<std::uint64_t>& devices);

}  // namespace thole::host
