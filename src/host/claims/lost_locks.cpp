#include "host/claims/lost_locks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/same_file.hpp"
#include "host/claims/allowance.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

const RecordedNode* node_with(const std::vector<RecordedNode>& nodes, std::uint64_t device, std::uint64_t inode) {
  const auto found =
      std::ranges::find_if(nodes, [&](const RecordedNode& node) { return node.inode == inode && node.device == device; });
  return found == nodes.end() ? nullptr : &*found;
}

}  // namespace

std::vector<NodeLock> node_locks(const std::vector<RecordedNode>& nodes, uid_t owner, KernelLocks listed,
                                 const TryLock& try_lock) {
  const bool names_all = listed.names_all();
  std::vector<NodeLock> found;
  std::set<const RecordedNode*> explained;
  Allowance allowance(for_init_to_take);
  for (pid_t pid : all_pids()) {
    for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
      const RecordedNode* node = node_with(nodes, open.device, open.inode);
      if (!node) return;
      const bool ours = S_ISFIFO(open.mode) && (open.mode & given_up) == 0 && open.uid == owner;
      if (ours && !has_flock(thread, open.fd)) return;
      if (ours && !explained.contains(node)) found.push_back({node->name, pid});
      explained.insert(node);
    }, [&] { return allowance.over(); });
  }
  std::set<const RecordedNode*> locked;
  for (const RecordedNode& node : nodes) {
    if (explained.contains(&node)) continue;
    const std::optional<bool> tried = try_lock ? try_lock(node) : std::nullopt;
    if (tried) (*tried ? locked : explained).insert(&node);
  }
  for (const KernelLock& lock : listed.flocks)
    if (const RecordedNode* node = node_with(nodes, lock.dev, lock.ino); node && explained.insert(node).second)
      found.push_back({node->name, lock.pid});
  for (const RecordedNode* node : locked)
    if (explained.insert(node).second) found.push_back({node->name, 0});
  if (!names_all || allowance.over())   // then nobody can tell, and a second owner would be worse
    for (const RecordedNode& node : nodes)
      if (!explained.contains(&node)) found.push_back({node.name, 0});
  return found;
}

}  // namespace thole::host
