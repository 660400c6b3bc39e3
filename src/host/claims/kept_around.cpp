// What this process runs inside, by the locks alone: for who cannot claim within it, as it is another's, or nothing names it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "host/claims/fifo_store.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// `run`, `map` or a lane, by its program: anybody can have any name.
bool is_launcher(pid_t pid) {
  const std::string program = executable_of(pid);
  return program.ends_with("/thole") || program.ends_with("/thole (deleted)");
}

struct Locked {
  std::pair<dev_t, ino_t> file;
  bool inherited;                      // by that process, which does not know of it
  pid_t launcher;                      // that process, where it is one
};

// Adds the FIFOs that a process has locked; nothing where its descriptors are not ours to see. A program's own claims are
// closed by execve: what is not was there before it.
void add_locked_by(pid_t pid, bool exclusively, std::vector<Locked>& locked) {
  const bool me = pid == ::getpid();
  const pid_t launcher = !me && is_launcher(pid) ? pid : 0;
  for_each_open_file(pid, [&](const OpenFile& open) {
    if (!S_ISFIFO(open.mode) || !has_flock(pid, open.fd, exclusively)) return;
    const bool inherited = stays_open_over_exec(pid, open.fd);
    if (!me || inherited) locked.push_back({{open.device, open.inode}, inherited, launcher});
  });
}

// Nobody waits for the queue's runner: what it has started does not end before who has started it.
std::vector<pid_t> waited_for_by() {
  std::vector<pid_t> pids = started_by();
  const auto is_runner = [](pid_t pid) {
    const auto process = read_process(pid);
    return process && process->name == runner_name;
  };
  pids.erase(std::ranges::find_if(pids, is_runner), pids.end());
  return pids;
}

}  // namespace

std::vector<port::KeptAround> FifoStore::kept_around(const std::vector<std::string>& keys, bool shared) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  std::vector<Locked> around;
  add_locked_by(::getpid(), shared, around);
  for (const pid_t pid : waited_for_by()) add_locked_by(pid, shared, around);
  std::vector<port::KeptAround> kept;
  for (const std::string& key : keys) {
    const auto slot = nodes_->slot_of(key);
    struct stat node;
    const Fd lock_of_unit = slot ? nodes_->open_gpu(*slot, O_PATH) : Fd();
    if (!lock_of_unit || ::fstat(lock_of_unit.get(), &node) != 0) continue;
    const std::pair file(node.st_dev, node.st_ino);
    port::KeptAround unit{key};
    bool found = false;
    for (const Locked& locked : around) {
      if (locked.file != file) continue;
      found = true;
      unit.to_the_end = unit.to_the_end || locked.inherited;
      if (!locked.inherited && locked.launcher != 0) unit.launcher = locked.launcher;
    }
    if (found) kept.push_back(unit);
  }
  return kept;
}

}  // namespace thole::host
