// The processes below one process, read from /proc. Always a moment's picture: whoever acts on it looks again afterwards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shell_kind.hpp"
#include "model/boot.hpp"

namespace thole::host {

struct ProcessStat {
  pid_t pid = 0, parent = 0, group = 0;
  char state = '?';                  // as ps shows it; 'Z' has ended, with all its threads, and waits for its parent
  std::uint64_t flags = 0;           // PF_… of the kernel
  std::uint64_t start_ticks = 0;     // with the pid it names a process for good
  std::string name;                  // the kernel's short name; a stranger's text
  bool hidden = false;               // a child of ours that /proc does not show: only its pid, group and state are known
  unsigned threads = 1;
};

// The parts used here of /proc/PID/stat; nothing when there is no such process.
std::optional<ProcessStat> read_process(pid_t pid);
std::optional<ProcessStat> parse_process_stat(const std::string& text);

bool is_ended_state(char state);
bool is_stopped_state(char state);   // by a signal (Ctrl-Z) or a debugger

// Where /proc tells of a process whose first thread alone has ended: in the directory of a living one, "/proc/PID/task/TID".
// Its own shows a zombie without files, environment and root. Empty where that is not so, or cannot be told: `why`, an errno.
std::string directory_behind_ended_first(pid_t pid, int* why = nullptr);

// Whether /proc numbers processes as this one does. One that was mounted outside of our pid namespace (`unshare -p` without
// --mount-proc) has other processes under our numbers, and ours under others.
bool proc_numbers_are_ours();

// The kernel's number of our pid namespace; 0 where it tells none. The first one of the machine has the same everywhere.
std::uint64_t pid_namespace();
inline constexpr std::uint64_t first_of_pid_namespaces = 0xEFFFFFFC;   // PROC_PID_INIT_INO of linux/proc_ns.h

// The same of the user namespace. In another one than the first the kernel tells nothing of a user's own processes outside.
std::uint64_t user_namespace();
bool in_first_user_namespace();

// Ourselves, whatever our number is there.
std::optional<ProcessStat> read_self();

// When it started, in ticks that are the same in every time namespace: each is told the start by its own clock.
std::uint64_t start_for_all(const ProcessStat& process);

// Whether two such are the start of one process. In a time namespace that is ahead by a part of a tick they differ by one.
bool is_same_start(std::uint64_t one, std::uint64_t other);

// The ticks of now: what is started from here on has these or more (as start_ticks has them).
std::uint64_t ticks_now();

// Who has started this process, as /proc numbers them, its parent first, as far as they are shown to us.
std::vector<pid_t> started_by();

// Every process that we are shown, others' too.
std::vector<pid_t> all_pids(int* why = nullptr);   // an errno: these are not all

// The path of its program, with " (deleted)" behind it where that is gone; empty where it is not ours to see.
std::string executable_of(pid_t pid);

// The effective uid of a process.
std::optional<uid_t> user_of(pid_t pid);

// Who has started it (who has by a setuid program too), and as whom it acts, as the kernel says.
struct UserIds {
  uid_t real = 0, effective = 0;
};
std::optional<UserIds> user_ids_of(pid_t pid);
std::optional<UserIds> user_ids_by_pidfd(pid_t pid);   // also where /proc does not show it; since Linux 6.13

// The kernel's name for the time since it started, or a container's (model/boot.hpp); empty where it tells none.
std::string boot_id();
model::BootId known_boot();                      // throws Error(unavailable): who takes this for another boot loses what runs

// The direct children of this process, zombies and those that /proc hides too; nothing where the kernel does not list them
// (CONFIG_PROC_CHILDREN).
std::optional<std::vector<pid_t>> listed_children();

// How many this thread has, and has been left by others that have ended where it is the first one of a subreaper; as above.
std::optional<std::size_t> number_of_own_children();

// The threads of a process; empty when there is no such process.
std::vector<pid_t> threads_of(pid_t pid);

// What the runner of a queue calls itself (PR_SET_NAME).
inline constexpr const char* runner_name = "thole-runner";
inline constexpr const char* lane_process_name = "thole-lane";   // and a lane of it

// From here on this process is known as one of these, also to those whom /proc does not show it to.
void be_known_as(const char* name);

// Whether this child of ours is a runner that somebody below has started (`thole submit` in a job), or a lane that such a
// runner has left to us.
bool is_of_a_queue(pid_t child);
bool is_of_a_queue(const ProcessStat& process);

// All living descendants of this process (no zombies), parents before children. A runner that somebody below started, its
// lanes and what runs for them are no part of them.
//
// How this works. /proc may hide a process from its own user and its parent: mounted with hidepid=2 it shows only those whose
// groups, capabilities and memory are open to us (not after `sg`, nor a program with a file capability or without r). The
// kernel tells of children all the same: it lists ours, zombies can be told by waitid(2), groups by getpgid(2). What is below
// a hidden child and itself hidden is not known before it becomes ours, at the end of what is between. `known` are children of
// ours that are looked for also where the kernel has no list.
std::vector<ProcessStat> our_descendants(std::span<const pid_t> known = {});

// Whether a process may have come below its parent by the end of one in between: what a killed runner or lane leaves goes to
// us, or to a process below us that takes in orphans (PR_SET_CHILD_SUBREAPER: `thole run` in a task, an init). A command of a
// lane leads a group of its own. Asked of one after the other, parents first.
class Newcomers {
 public:
  bool may_be_one(const ProcessStat& process) {
    const auto above = groups_.find(process.parent);
    groups_[process.pid] = process.group;
    return above == groups_.end() || above->second != process.group;
  }

 private:
  std::map<pid_t, pid_t> groups_;
};

// The shell that started us, or what we are a fork of: the parent, or above it where that is a subshell of the same shell, as
// in `$(thole … | cat)`. A subshell is a fork: it has the same program and arguments.
pid_t calling_shell();

ShellKind kind_of_shell(pid_t shell);

// "1234 python train.py", from the command line or else the short name; not yet printable.
std::string describe_process(const ProcessStat& process);

}  // namespace thole::host
