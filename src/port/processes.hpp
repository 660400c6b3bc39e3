// Port: what a command is started with, how it ended, and being one instead of starting one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"
#include "base/soft_limits.hpp"
#include "model/bound.hpp"
#include "model/command.hpp"
#include "model/lane_record.hpp"

namespace thole::port {

// That a command begins could not be noted beforehand: it has not been started.
struct NotNoted : Error {
  explicit NotNoted(int sys_errno)
      : Error(Error(ErrorCode::unavailable, "cannot note that it begins").because(sys_errno)) {}
};

// Everything about one process to start, decided beforehand; printable by --dry-run.
struct ProcessSpec {
  std::vector<std::string> argv;                 // argv[0] is looked up in the new PATH as execvp does
  std::map<std::string, std::string> set;        // variables to set …
  std::vector<std::string> unset;                // … and to remove, on top of the caller's environment
  std::string cwd;                               // "" = unchanged
  model::Binding binding;                           // applied in the new process before it execs, and read back there
  bool strict = false;                           // a binding that is refused or comes out otherwise is an error: no start
  std::function<void(const model::Bound&)> bound;  // told once what was read back; may be empty
  std::vector<int> keep;                         // descriptors the child gets, as copies at 10 and above (the claim's locks)
  // For a command in the background, of the queue:
  const std::vector<std::string>* base = nullptr;  // the environment that set and unset start from; null: the caller's
  int output = -1;                               // its stdout and stderr, with an empty stdin; -1: ours, all three
  int errors = -1;                               // its stderr, where that is to be another one than `output`
  bool own_group = false;                        // a process group of its own
  std::optional<mode_t> mask;                    // of new files (umask)
  std::vector<SoftLimit> limits;                 // soft ones, as far as the hard ones allow
  model::ProcessIdentity* identity = nullptr;    // is told the command's
  // For a process that another program starts through the library:
  std::vector<std::pair<int, int>> numbered;     // descriptors of ours, and the numbers at which the child has them
  int life = -1;                                 // read end of a pipe: when its last write end is closed, the kernel kills the
                                                 // child's process group, which is its own
  struct Note {                                  // written by the child itself when all that is left is execve; else no start
    int file = -1;                               // -1: none
    std::size_t offset = 0;
    model::TaskPhase text{};
    std::size_t pid_offset = 0;                  // where its number stands, written before that
  } reached{};
};

// How a command ended.
struct Ended {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool core = false;
  bool time_limit = false;                       // it was ended by its time limit
  bool released = false;                         // … or because its claim was asked back
  std::vector<std::string> left_behind;          // processes of its tree that outlived it, "pid command" (not yet printable)
};

inline void put_how(Ended& ended, const model::HowEnded& how) {
  ended.exit_code = how.exit_code;
  ended.signal = how.signal;
  ended.core = how.core;
}

// What somebody asked of the supervisor through the claim's socket.
struct Order {
  bool end = false;                              // end the command: the claim is asked back
  std::optional<WallTime> until;                 // the command's new end
};

// What the end of a command still waits for.
struct Ending {
  pid_t pid = 0;                                 // the command, or the first of what is left of its tree
  std::string name;                              // the kernel's short name of it; not yet printable
  std::optional<SteadyTime> killed;              // when it gets KILL; nothing: it is left in peace (linger)
};

class Processes {
 public:
  virtual ~Processes() = default;

  // Throws as `start` would for a program that is not there, or is none. Looks in the PATH of `spec.base` and below `spec.cwd`.
  virtual void check_program(const ProcessSpec& spec) const = 0;

  // Ends this process as the command ended: the same status, or by the same signal (128+n as pid 1).
  // Let go of the claim first: nothing is destroyed on the way.
  [[noreturn]] virtual void end_as(const Ended& ended) = 0;

  // Replaces this process (--no-supervisor); returns only by throwing.
  [[noreturn]] virtual void become(const ProcessSpec& spec) = 0;
};

}  // namespace thole::port
