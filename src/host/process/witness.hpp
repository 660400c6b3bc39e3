// Tells a signal sent to this process alone from one sent to its whole process group.
//
// How it works. The kernel does not say which it was: `kill PID` and `kill %1` (the group) look the same to the receiver, and
// forwarding the second would interrupt the job twice, the second time in the midst of its clean-up. So a second, idle process
// sits in our group with all signals blocked. What goes to the group stays pending there and can be read from /proc/PID/status.
// A sender that signals one process after the other (systemd, Slurm) is given a short grace. Others guess instead: sudo drops
// signals from senders in the job's group (and with them those of a script that started it), timeout(1) always delivers twice,
// dumb-init puts the job into a session of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.hpp"
#include "host/process/pages.hpp"

namespace thole::host {

class Witness {
 public:
  Witness();   // starts it; all signals must be blocked. Without a process (or /proc) it never saw anything
  ~Witness() { dismiss(); }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  pid_t pid() const { return pid_; }
  bool saw(int signal);          // was it sent to the group (or to every process) too? Forgets what it saw
  void dismiss();                // ends and reaps it: it holds no descriptor of ours from here on
  void gone() { pid_ = -1; }     // it has ended and has been reaped

 private:
  std::uint64_t pending() const;
  Pages stack_;                  // it lives in our memory, as long as this object does
  pid_t pid_ = -1;
};

}  // namespace thole::host
