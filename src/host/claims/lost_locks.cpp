#include "host/claims/lost_locks.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

std::vector<NodeLock> node_locks(const std::vector<RecordedNode>& nodes) {
  std::vector<NodeLock> found;
  if (nodes.empty()) return found;
  for (pid_t pid : all_pids())
    for_each_open_file(pid, [&](const OpenFile& open) {
      if (!S_ISFIFO(open.mode) || (open.mode & 0777) == 0) return;
      const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const RecordedNode& one) {
        return one.inode == open.inode && one.device == open.device;
      });
      if (node != nodes.end() && has_flock(pid, open.fd)) found.push_back({node->name, pid});
    });
  return found;
}

}  // namespace thole::host
