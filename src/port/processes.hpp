// Port: starting a command with a claim, living beside it, and ending what it leaves behind.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/cpu_set.hpp"

namespace thole::port {

// Everything about one process to start, decided beforehand; printable by --dry-run.
struct ProcessSpec {
  std::vector<std::string> argv;                 // argv[0] is looked up in the new PATH as execvp does
  std::map<std::string, std::string> set;        // variables to set …
  std::vector<std::string> unset;                // … and to remove, on top of the caller's environment
  std::string cwd;                               // "" = unchanged
  std::optional<model::CpuSet> cpus;             // affinity to apply before exec
  std::vector<int> keep;                         // descriptors the child gets, as copies at 10 and above (the claim's locks)
};

// How a command ended.
struct Ended {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool core = false;
  bool time_limit = false;                       // ended by --time
  std::vector<std::string> left_behind;          // processes of its tree that had to be ended afterwards, "pid command"
};

struct SupervisePolicy {
  std::optional<Seconds> time_limit;             // INT, then TERM, then KILL, `patience` apart
  Seconds patience{10};
  bool linger = false;                           // wait for the rest of the tree instead of ending it
};

class Processes {
 public:
  virtual ~Processes() = default;

  // Starts it (vfork style) in the same terminal and process group. Throws Error(not_found | not_executable | internal).
  virtual pid_t start(const ProcessSpec& spec) = 0;

  // Stays with it to its end: forwards signals sent to us alone, follows stops and continues, enforces the limit, then
  // deals with what is left of its tree. `control` (or -1) is a listening socket served meanwhile by `serve`.
  virtual Ended supervise(pid_t pid, const SupervisePolicy& policy) = 0;

  // Replaces this process (--no-supervisor); returns only by throwing.
  [[noreturn]] virtual void become(const ProcessSpec& spec) = 0;
};

}  // namespace thole::port
