// The files that other processes have open, as /proc/PID/fd and fdinfo show them to their user and to root.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thole::host {

// What the kernel knows of it without asking its file system: one of a user's own program could keep us waiting. No path is
// told, for anybody can make one of any text in a mount namespace of his own.
struct OpenFile {
  const char* fd = "";      // its number
  mode_t mode = 0;
  uid_t uid = 0;
  std::uint64_t device = 0, inode = 0, links = 0, bytes = 0;
};

// Ends a look early: anybody can have any number of descriptors, and of locks, which are told for each. Only our own user's are
// looked at to the end.
using Stop = std::function<bool()>;
inline const Stop to_the_end{};

// Of a process, or of one of its threads. False where its descriptors are not ours to see, it has ended, or it was stopped.
// `want`: an errno for which some could not be looked at (base/want.hpp); stays as it is where there was none.
bool for_each_open_file(pid_t pid, const std::function<void(const OpenFile&)>& visit, const Stop& stop,
                        int* want = nullptr);

// The same of each of its threads that has descriptors of its own; which one it is is told. The threads of a process have them
// in common, mostly; but each may have its own, and the first may have ended. Two that cannot be compared count both.
bool for_each_open_file_of_any_thread(pid_t pid, const std::function<void(pid_t thread, const OpenFile&)>& visit,
                                      const Stop& stop, int* want = nullptr);

// What fdinfo tells of one of them: its flags, its locks. Unset (errno) where it is not ours to see, or is no more.
std::optional<std::string> about_descriptor(pid_t pid, const char* fd);

// Has the process the file of this descriptor of ours open?
bool has_open(pid_t pid, int fd, int* want = nullptr);

// Does this descriptor keep a flock?
bool has_flock(pid_t pid, const char* fd, bool exclusively = false);

// Is it one that execve does not close? False where that cannot be told.
bool stays_open_over_exec(pid_t pid, const char* fd);

// Of these files, those of which this process has a descriptor that keeps a flock, in any of its threads.
using FileNumber = std::pair<std::uint64_t, std::uint64_t>;   // its device, its inode
std::set<FileNumber> numbers_of_files(int directory, const std::vector<std::string>& names);   // of those that are there
struct KeptLocks {
  std::set<FileNumber> files;
  bool all = true;   // false: it may keep more, for its descriptors are not mine to see, or too many
};
KeptLocks kept_locks(pid_t pid, const std::set<FileNumber>& files, const Stop& stop);

// Has this process a descriptor that keeps a flock of this open file? Unknown where its descriptors are not mine to see.
std::optional<bool> keeps_lock(pid_t pid, int fd, const Stop& stop);

// Has the process a socket in which descriptors are on their way to it? (The kernel counts them from Linux 5.6 on.)
bool has_descriptors_coming(pid_t pid, const Stop& stop);

// Has the process a FIFO open that keeps one, as who has a claim's locks does? And one that we have open, too?
bool has_locked_fifo(pid_t pid);
bool keeps_a_lock_of_ours(pid_t pid);

// Whether the process has a FIFO of ours, which nobody else can open, for reading and writing, whose name ends so, or did when
// it was removed.
bool has_own_fifo_open(pid_t pid, std::string_view end_of_name, int* want = nullptr);

// Whether it has the file of a queue's runner, or a lane's FIFO (lanes/N.life), open like that, and keeps its flock; but for
// those that we have open, too. A command may lock files of its own whose names are like these: those are no FIFOs.
bool keeps_runner_lock(pid_t pid);
bool keeps_lane_lock(pid_t pid);
bool keeps_lock_of_another_lane(pid_t pid, int life);   // but for the lane of this FIFO

}  // namespace thole::host
