// Starting a program: looks it up, prepares everything beforehand, and reports why it could not run.
//
// How it works. The child of a vfork-style clone shares our memory until it execs, so it may call async-signal-safe functions
// only: the environment, the paths to try and the masks are made by the parent. What fails goes up a CLOEXEC pipe as
// {stage, errno}; an empty pipe means that the program runs. Into a cgroup of its own the child is forked: clone3, which alone
// can do that, wants code of its own to share memory. A vfork-style start costs 0.26 ms whatever the parent's size; fork()
// from a process of 1 GiB costs 23 ms (measured on a 2-CPU virtual machine, Linux 6.18).
//
// We wait for the child's execve and can do nothing meanwhile, not even stop: so Ctrl-Z, which our group gets and with it a
// child that has not left it yet, must not stop the child before. A mask that kept it off would go on into the program; a
// handler does not, for execve makes the default of it. In a group of its own what has come to the child so is no affair of its
// program; where it stays in ours, whoever started it passes it on (Foreground::began). SIGSTOP nothing keeps off: who stops a
// whole group by that has to continue it as a whole, too.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "host/process/binding_step.hpp"
#include "host/process/pages.hpp"
#include "host/process/signals.hpp"
#include "port/processes.hpp"

namespace thole::host {

// A ProcessSpec turned into what execve and its neighbours want.
class Launch {
 public:
  Launch(const port::ProcessSpec& spec, const InheritedSignals& inherited);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // In a child; all signals must be blocked by the caller. It is born in `cgroup`, a directory of the unified hierarchy, where
  // one is given and the kernel agrees; else where we are. Throws as port::Processes::start.
  pid_t start(int cgroup = -1);
  [[noreturn]] void become();  // in this process

  void check_program() const;  // throws as start would for a program that is not there

  // For many starts of one spec: as start, without a cgroup, and without what costs a system call more than it must. `end`
  // becomes readable when the process has ended. Before it, whenever spec.argv was changed: arguments_changed().
  pid_t start_again(Fd& end);
  void arguments_changed();

 private:
  enum class Stage { none, descriptors, cpus, memory, directory, life, note, exec };
  struct Failure { Stage stage; int reason; };

  Failure prepare(void (*at_stop)(int));   // all that comes before exec; async-signal-safe like the next two
  void open_failures();
  bool put_descriptors();
  bool tie_to_life();          // false: errno says why; the other end may be gone already
  bool open_life();
  int exec_any();              // the errno that execvp would report
  pid_t start_here(int* end);  // -1 with errno set
  static int child(void* launch);
  void tell_bound() const;
  [[noreturn]] void report(const Failure& failure) const;
  [[noreturn]] void report_cpus() const;
  [[noreturn]] void report_memory() const;
  [[noreturn]] void report_exec(int reason) const;

  const port::ProcessSpec& spec_;
  const InheritedSignals& inherited_;
  std::vector<std::string> environment_, candidates_;
  std::vector<char*> argv_, envp_, shell_argv_;  // shell_argv_: "/bin/sh", room for the path, then argv[1…]
  std::string program_;        // whose paths the candidates are
  BindingStep binding_;
  std::vector<int> copies_;    // of the descriptors to put, while they are being put
  int above_ = 0;              // the first number that none of them gets
  std::string life_path_;      // reopens spec.life
  Pages stack_;                // of the child that shares our memory
  Pipe failures_;              // from a child that does not …
  Failure failure_{};          // … and from one that does
};

// The paths execvp would try for `program` under this PATH, in order; the program itself when it has a slash.
std::vector<std::string> paths_to_try(const std::string& program, const std::string& path);

// The environment a job gets: `base` ("NAME=value" words) without `unset` and with `set`.
std::vector<std::string> job_environment(const char* const* base, const port::ProcessSpec& spec);

}  // namespace thole::host
