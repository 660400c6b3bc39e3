// What this process runs inside, by the locks alone: for who cannot claim within it, as it is another's, or nothing names it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "host/claims/fifo_store.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// Our own claims are closed by execve: what is not was there before this program.
bool is_inherited(const OpenFile& open) { return (::fcntl(std::atoi(open.fd), F_GETFD) & FD_CLOEXEC) == 0; }

using Locked = std::vector<std::pair<dev_t, ino_t>>;

// The FIFOs that a process has locked; nothing where its descriptors are not ours to see.
Locked locked_by(pid_t pid, bool exclusively) {
  Locked locked;
  for_each_open_file(pid, [&](const OpenFile& open) {
    if (!S_ISFIFO(open.mode) || (pid == ::getpid() && !is_inherited(open))) return;
    if (has_flock(pid, open.fd, exclusively)) locked.emplace_back(open.device, open.inode);
  });
  return locked;
}

}  // namespace

std::vector<port::KeptAround> FifoStore::kept_around(const std::vector<std::string>& keys, bool shared) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  const Locked inherited = locked_by(::getpid(), shared);
  Locked around;
  for (const pid_t pid : started_by())
    for (const auto& file : locked_by(pid, shared)) around.push_back(file);
  std::vector<port::KeptAround> kept;
  for (const std::string& key : keys) {
    const auto slot = nodes_->slot_of(key);
    struct stat node;
    const Fd lock_of_unit = slot ? nodes_->open_gpu(*slot, O_PATH) : Fd();
    if (!lock_of_unit || ::fstat(lock_of_unit.get(), &node) != 0) continue;
    const std::pair file(node.st_dev, node.st_ino);
    const bool ours = std::ranges::find(inherited, file) != inherited.end();
    if (ours || std::ranges::find(around, file) != around.end()) kept.push_back({key, ours});
  }
  return kept;
}

}  // namespace thole::host
