#include "host/claims/rightful.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/claims/lost_locks.hpp"
#include "host/claims/membership.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_list = 256u << 20;

std::string name_of(pid_t pid, const ProcessState& process) {
  return fmt::format("pid {} ({}) of user {}", pid, printable(process.name, 20), process.uid);
}

InitRecord::Held held_by(const std::string& node, pid_t pid, const std::optional<ProcessState>& process) {
  return {node, pid, process ? process->start : 0, process ? process->uid : InitRecord::unknown};
}

bool is_shared(int fd) {
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
  ::flock(fd, LOCK_UN);
  return true;
}

// A list of locks that others change while it is read may lack one of several sharers. So the processes are asked as well.
void add_sharers(std::vector<InitRecord::Held>& found, const std::string& node, int fd, gid_t group, uid_t owner,
                 const InitRecord& record) {
  struct stat open;
  if (::fstat(fd, &open) != 0) return;
  for (const NodeLock& lock : node_locks(owner, record.devices)) {
    const auto process = lock.ino == open.st_ino ? process_state(lock.pid) : std::nullopt;
    if (!process) continue;
    const bool recorded = std::any_of(record.held.begin(), record.held.end(), [&](const InitRecord::Held& held) {
      return held.node == node && (held.uid == process->uid || held.uid == InitRecord::unknown);
    });
    if (recorded || process_is_member(lock.pid, process->uid, group)) found.push_back(held_by(node, lock.pid, process));
  }
}

// The one who took the lock has ended; who has the descriptor now? Nobody to be seen: then it may be anybody.
bool inherited_by_right(int fd, gid_t group, uid_t owner, const InitRecord& record, std::string& other) {
  struct stat node;
  if (::fstat(fd, &node) != 0) return true;
  std::string stranger;
  for (const NodeLock& lock : node_locks(owner, record.devices)) {
    const auto process = lock.ino == node.st_ino ? process_state(lock.pid) : std::nullopt;
    if (!process) continue;
    if (process_is_member(lock.pid, process->uid, group)) return true;
    stranger = name_of(lock.pid, *process);
  }
  if (!stranger.empty()) other = stranger;
  return stranger.empty();
}

}  // namespace

std::vector<KernelLock> all_locks() {
  const std::string text = read_file("/proc/locks", longest_list).value_or("");
  return text.size() < longest_list ? parse_kernel_locks(text) : std::vector<KernelLock>{};
}

std::string recorded_name(const std::string& node, int fd) {
  struct stat open;
  return fmt::format("{}:{}", node, ::fstat(fd, &open) == 0 ? open.st_ino : 0);
}

Lockers lockers_by_right(const std::string& name, int fd, const std::vector<KernelLock>& locks, std::optional<gid_t> closed_to,
                         uid_t owner, const InitRecord& record) {
  Lockers found;
  const std::string node = recorded_name(name, fd);
  const bool closed = closed_to && record.tells_of(node);
  const gid_t group = closed_to.value_or(0);
  for (pid_t pid : lockers_of(locks, fd)) {
    const auto process = process_state(pid);
    const bool recorded = std::any_of(record.held.begin(), record.held.end(), [&](const InitRecord::Held& held) {
      return held.node == node && held.pid == pid && (!process || held.start == process->start);
    });
    bool right = recorded || !closed;
    if (!right && process) {
      right = process_is_member(pid, process->uid, group);
      if (!right) found.other = name_of(pid, *process);
    } else if (!right) {
      right = inherited_by_right(fd, group, owner, record, found.other);
    }
    if (right) found.rightful.push_back(held_by(node, pid, process));
  }
  if (found.rightful.empty() && !found.other.empty() && closed && is_shared(fd))
    add_sharers(found.rightful, node, fd, group, owner, record);
  return found;
}

}  // namespace thole::host
