// What the kernel says about locks and processes: /proc/locks, /proc/PID/stat, the boot id.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/claims/allowance.hpp"
#include "host/claims/layout.hpp"
#include "host/process/open_files.hpp"

namespace thole::host {

// One flock in force, by the pid that took it (it stays named after its death, while a child has the descriptor). Locks of
// other pid namespaces are not listed.
struct KernelLock {
  std::uint64_t dev = 0, ino = 0;
  pid_t pid = 0;
  bool exclusive = false;
  auto operator<=>(const KernelLock&) const = default;
};

// The table as the kernel writes it. Not `read`: it could not be, to where the limit was over or to its end.
struct LockTable {
  std::string text;
  bool read = false, whole = true;
  bool at_once = true;   // on one page; else what others give back between two moves what follows, and a line may be missed
};

// /proc/locks, flocks only, waiters left out. Anybody can make it as long as he likes, and the kernel begins anew for every
// page of it: it is read for as long as the limit says. Then it is not whole, and who is not in it may hold all the same.
// Of more than one page, what others give back between two of them moves what follows, and a line may be missed: such a list
// is read until it reads twice alike, and else several times, and joined.
class KernelLocks {
 public:
  std::vector<KernelLock> flocks;      // what was read last first
  bool whole = true;                   // to its end
  bool steady = true;                  // read at once, or twice alike: for who names somebody
  std::string crowd;                   // who has how many of those that were read, where they are too many; "" where not

  // Whether who is not in it now is nobody. No single reading tells that: a lock with many waiters ends a page before it is
  // full, and whoever lets many go at once between two pages has the rest read as an empty one. So it is read many times more,
  // and what was in any reading is in it. Who makes the list move can do so at every reading: nothing is given to anybody by
  // this alone where a lock can be tried, or descriptors be looked at.
  bool names_all();

 private:
  friend KernelLocks join_tables(std::function<LockTable()> read, std::chrono::nanoseconds limit);
  void add(LockTable table);

  std::function<LockTable()> read_;
  std::chrono::nanoseconds limit_{0};
  std::string text_;                   // of the last reading
  unsigned more_ = 0;                  // readings until it names all
};
constexpr std::chrono::milliseconds to_name_holders{100}, under_alloc{8};
// Of `thole init`: what it only tells, and what it gives to others.
constexpr std::chrono::milliseconds for_init_to_tell{2'000}, for_init_to_take{5'000};
LockTable lock_table(std::chrono::nanoseconds limit);
KernelLocks join_tables(std::function<LockTable()> read, std::chrono::nanoseconds limit);
KernelLocks kernel_locks(std::chrono::nanoseconds limit = to_name_holders);
std::vector<KernelLock> parse_kernel_locks(std::string_view text);

// The pids that hold a flock of this open file.
std::vector<pid_t> lockers_of(const std::vector<KernelLock>& locks, int fd);

// Is one of those exclusive? Then it is the only one.
bool is_exclusive(const std::vector<KernelLock>& locks, int fd);

// The same, where nobody is an answer: nothing where that cannot be told.
std::optional<std::vector<pid_t>> told_lockers_of(KernelLocks& locks, int fd);

// The process as it is now: start time (clock ticks since boot), state letter, effective uid; nothing when there is none.
struct ProcessState {
  std::uint64_t start = 0;
  char state = '?';
  uid_t uid = 0;
  std::string name;
};
std::optional<ProcessState> process_state(pid_t pid);
bool is_stopped(const ProcessState& process);   // by a signal (Ctrl-Z) or a debugger
bool stands_still(std::uint32_t pid, std::uint64_t start);   // the process of this number and start time, so

// Who took a lock, as far as the kernel tells: the first of `lockers`. Without a pid nobody is named: there is none (he is in
// another pid namespace), or no process has his number any more (a child of his holds on).
struct Taker {
  pid_t pid = 0;
  // Who runs it, where it is a program of root's (setuid). Absent where /proc hides him and the kernel is older than 6.13.
  std::optional<uid_t> uid;
  std::optional<std::uint64_t> start;    // absent where /proc hides him
};
Taker taker_among(const std::vector<pid_t>& lockers);

// Those whose descriptors keep a flock of these files, however long anybody has made the kernel's list; of processes with more
// descriptors than there is time for not all are found.
std::map<FileNumber, std::vector<pid_t>> keepers_by_descriptors(const std::set<FileNumber>& files, Allowance& allowance);

// What is on its way in a socket has no owner; but few processes have descriptors coming, and leave them there. Of these whose
// descriptors are ours to see so many.
std::vector<pid_t> with_descriptors_coming(std::size_t most = 6);

// Who keeps a flock of this open file, in words: "pid 1234 (python3, stopped) of anna holds it". The kernel names who took it,
// by a number that may be another's by now: whose descriptors can be seen is looked at, and root is told the child that has it
// still. May ask the network for a name.
std::string describe_keeper(int fd);
inline constexpr const char* kept_in_turn = "many have it in turn";   // it may say
// Is a flock of this open file in force that no process is seen to have, as one whose descriptor is on its way in a socket?
// Asked by root, who sees the processes of all users; root's own of more rights than ours are taken to have none. False where
// that cannot be told.
bool kept_in_no_process(int fd);
std::string describe_process(pid_t pid);   // "pid 1234 (python3, stopped) of anna"

// This process, with the boot id.
ProcessIdentity own_identity();
std::uint32_t own_pid_namespace();     // the kernel's number of it; 0: not known

}  // namespace thole::host
