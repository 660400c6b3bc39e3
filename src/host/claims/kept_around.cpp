// What this process runs inside, by the kernel alone: for who cannot claim within it, as it is another's, or nothing names it.
//
// What `run` and `map` claim is inherited, or is theirs who started us. A shell's claim is a process's that is no part of the
// shell: that has the lock, and looks at the shell through a pidfd, of which the kernel tells whose it is. Anybody can look at
// any process, so both are of one user.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/control/holder.hpp"
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
  }, to_the_end);
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

// Which process a pidfd means; 0 where it is none, or that has ended.
pid_t meant_by(pid_t pid, const char* fd) {
  constexpr std::string_view title = "Pid:";
  const std::string about = about_descriptor(pid, fd).value_or("");
  for (const std::string_view line : split_lines(about))
    if (line.starts_with(title)) return static_cast<pid_t>(parse_u64(trim(line.substr(title.size()))).value_or(0));
  return 0;
}

bool are_of_one_user(pid_t one, pid_t other) {
  const auto first = user_ids_of(one), second = user_ids_of(other);
  return first && second && first->real == second->real;
}

// The one of these processes that is the shell for which that one keeps a claim; 0 where none is.
pid_t shell_of(pid_t keeper, const std::vector<pid_t>& shells) {
  const auto process = read_process(keeper);
  const auto may_be_meant = [keeper](pid_t pid) { return are_of_one_user(keeper, pid); };
  if (!process || process->name != holder_for_shell || std::ranges::none_of(shells, may_be_meant)) return 0;
  pid_t shell = 0;
  for_each_open_file(keeper, [&](const OpenFile& open) {
    if (S_ISFIFO(open.mode) || S_ISSOCK(open.mode) || shell != 0) return;
    const pid_t pid = meant_by(keeper, open.fd);
    if (std::ranges::find(shells, pid) != shells.end() && are_of_one_user(keeper, pid)) shell = pid;
  }, to_the_end);
  return shell;
}

// Those who keep claims for shells that have started us, or that have become us (exec).
class ShellClaims {
 public:
  ShellClaims(std::vector<pid_t> above, bool exclusive) : shells_(std::move(above)), locks_(kernel_locks().flocks) {
    if (const auto self = read_self()) shells_.push_back(self->pid);
    if (exclusive) std::erase_if(locks_, [](const KernelLock& lock) { return !lock.exclusive; });
  }

  // Adds the one that has this lock; false where there is none.
  bool find(int lock_of_unit, port::KeptAround& unit) {
    for (const pid_t locker : lockers_of(locks_, lock_of_unit)) {
      auto [known, is_new] = shell_by_keeper_.try_emplace(locker, 0);
      if (is_new) known->second = shell_of(locker, shells_);
      if (known->second == 0 || !keeps_lock(locker, lock_of_unit, to_the_end).value_or(false)) continue;
      unit.shell = known->second;
      unit.keeper = locker;
      return true;
    }
    return false;
  }

 private:
  std::vector<pid_t> shells_;
  std::vector<KernelLock> locks_;
  std::map<pid_t, pid_t> shell_by_keeper_;   // 0: of none of these
};

}  // namespace

std::vector<port::KeptAround> FifoStore::kept_around(const std::vector<std::string>& keys, bool shared) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  std::vector<Locked> around;
  add_locked_by(::getpid(), shared, around);
  const std::vector<pid_t> above = waited_for_by();
  for (const pid_t pid : above) add_locked_by(pid, shared, around);
  ShellClaims for_shells(above, shared);
  std::vector<port::KeptAround> kept;
  for (const std::string& key : keys) {
    const auto slot = nodes_->slot_of(key);
    struct stat node;
    const Fd lock_of_unit = slot ? nodes_->open_gpu(*slot, O_PATH) : Fd();
    if (!lock_of_unit || ::fstat(lock_of_unit.get(), &node) != 0) continue;
    const std::pair file(node.st_dev, node.st_ino);
    port::KeptAround unit{key};
    bool found = for_shells.find(lock_of_unit.get(), unit);
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
