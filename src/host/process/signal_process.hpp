// A signal to one process, and to no other. A number that was read somewhere may be another's by now, and in another pid
// namespace it always was: what the queue signals, it signals from here (tests/dependencies.py).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

// Through a pidfd, so that a pid reused since the picture was taken is not hit. False: the kernel does not let us (a process
// of another user: sudo).
bool signal_process(const ProcessStat& process, int signal);

// To the process of this pidfd. False, with errno: it has ended, or the kernel does not let us.
bool signal_by_pidfd(const Fd& process, int signal);

// The same to the process group of its number, which it leads: with older kernels only while it lives.
bool signal_group_by_pidfd(const Fd& leader, pid_t number, int signal);

// By a number that was read somewhere. Nobody is signalled whom `is_it` has not found to be meant while he was held, nor where
// /proc is that of another pid namespace: what is read there of the number is not about the one who would get the signal.
// The pidfd of the one who got it; else empty.
Fd signal_found(pid_t number, const std::function<bool()>& is_it, int signal);

// A child of ours that has not been waited for, or the group that it was made the leader of: nobody else has that number.
void signal_child(pid_t child, int signal);
void signal_group_of_child(pid_t child, int signal);

// Whether any process has this number now; nobody is signalled. It may be another than it was.
bool is_any_process(pid_t number);

// A signal to all of a picture, and CONT after it: a stopped process must run to hear it. A process group that was made below
// us gets it as one, for the sake of members that /proc hides: those of hidden children, and `whole` (0: none), the group of a
// command that has not been waited for. Returns those that the kernel does not let us signal.
std::vector<ProcessStat> signal_all(const std::vector<ProcessStat>& picture, int signal, pid_t whole = 0);

// SIGSTOP for a tree of processes that may fork meanwhile. A fork that had begun when the signal came still makes a child, and
// no picture shows that before its parent has stopped (copy_process() in the kernel's kernel/fork.c looks for signals first and
// attaches the child last): so looks go on until one that follows a picture of stopped processes shows nobody new.
class Stopping {
 public:
  // Stops those of the picture that it has not met; true when nothing can be left.
  bool look(const std::vector<ProcessStat>& picture);

 private:
  std::set<std::pair<pid_t, std::uint64_t>> met_;   // pid and start
  bool were_stopped_ = false;                       // all of the picture before
};

// Stops what each look finds, for at most ten looks: what can be stopped has stopped then, and can be killed.
void freeze(const std::function<std::vector<ProcessStat>()>& look);

// The process groups of what lives below us, to be killed as one: who forks on without end, each time ending before he is read,
// is in the same group all the time, and in that no fork comes between.
//
// Only groups of a session that was made below us: all who are in it come from who made it. In our own session anybody may join
// a group, and who is to be killed may have joined anybody's (setpgid(2)).
class GroupsBelow {
 public:
  // One picture: those who are to be killed, and the others below us, whose sessions are left alone.
  void saw(const std::vector<ProcessStat>& picture, const std::vector<ProcessStat>& others);
  void kill() const;

 private:
  std::set<pid_t> groups_, others_sessions_;
};

// Both, before each of a tree is killed. `look`: those of a picture who are to be killed; it adds the others below us.
void freeze_and_kill_groups(const std::function<std::vector<ProcessStat>(std::vector<ProcessStat>& others)>& look);

// Each process gets a signal once, until another one is sent; KILL is for everybody each time.
class OnceEach {
 public:
  std::vector<ProcessStat> not_yet(std::vector<ProcessStat> processes, int signal);

 private:
  int signal_ = 0;
  std::set<std::pair<pid_t, std::uint64_t>> told_;   // pid and start
};

// Each process is told of once, as "pid command".
class ToldOnce {
 public:
  using Tell = std::function<void(const std::vector<std::string>&)>;
  void tell(const std::vector<ProcessStat>& processes, const Tell& tell);
  std::vector<std::string> new_ones(const std::vector<ProcessStat>& processes);

 private:
  std::set<std::pair<pid_t, std::uint64_t>> told_;   // pid and start
};

}  // namespace thole::host
