// A cgroup of the command's own, so that all it has started can be ended in one write, however fast it forks.
//
// How it works. A cgroup may be made within ours where ours was delegated to us: a directory of the unified hierarchy that is
// our own (a user's systemd scope or service) or, for root, that systemd marked as delegated. The command is born in it
// (CLONE_INTO_CGROUP): moving a running process would stop the whole machine's forks for milliseconds. No controller is
// switched on, so nothing else changes for the command. Everywhere else there is none, and the supervisor does without.
#pragma once

#include <string>

#include "base/fd.hpp"

namespace thole::host {

class JobCgroup {
 public:
  JobCgroup() = default;                        // none
  explicit JobCgroup(const std::string& root);  // one below ours, if that can be had; `root` is put before /proc and /sys
  ~JobCgroup() { remove(); }
  JobCgroup(const JobCgroup&) = delete;
  JobCgroup& operator=(const JobCgroup&) = delete;

  int directory() const { return directory_.get(); }  // to be born in; -1 where there is none
  void kill();                                        // SIGKILL to everything in it and below
  void remove();                                      // with what nested runs left in it; stays while anything lives there

 private:
  Fd parent_, directory_;
  std::string name_;
};

// Where this process is in the unified hierarchy, by the text of /proc/self/cgroup: "/user.slice/…"; "" when it is not said, or
// outside of what can be seen from here.
std::string unified_cgroup(const std::string& text);

}  // namespace thole::host
