// A command in our own terminal and process group (`thole run`): what signals and Ctrl-Z mean there.
//
// How it works. What is sent to our group reaches the command without us, but where it has made a group of its own in our
// session (timeout(1)): that we pass on to this. A signal that was sent to us alone (see witness.hpp) is passed on, any other
// is dropped. A command that stops itself stops us by the same signal, so that a shell sees one job; `fg` continues both.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <memory>
#include <optional>
#include <vector>

#include "host/process/signals.hpp"
#include "host/process/witness.hpp"
#include "port/commands.hpp"

struct signalfd_siginfo;

namespace thole::host {

// `command` is its number everywhere, or 0: it has ended.
class Foreground {
 public:
  explicit Foreground(const InheritedSignals& inherited) : inherited_(inherited) {}

  sigset_t signals() const;                      // to be read while it runs: those that are ignored stay so, here and there
  void begin() { witness_ = std::make_unique<Witness>(); }   // all signals are blocked
  void let_go() { witness_.reset(); }
  void began(pid_t command);                     // all signals are blocked since before it was born
  pid_t witness() const { return witness_ ? witness_->pid() : -1; }

  void take(const signalfd_siginfo& signal, pid_t command, std::vector<port::CommandEvent>& events);
  void look_for_stops(pid_t command, std::vector<port::CommandEvent>& events);
  void ended(pid_t child);                       // it has been reaped
  void command_ended() { witness_->dismiss(); }

  // Stands still with the command, where that was told (WeStop) and not done yet.
  std::optional<port::WeSlept> stand_still(pid_t command);

 private:
  bool was_to_group(int signal);
  void will_stop(int signal, std::vector<port::CommandEvent>& events);
  void follow_stop(int signal, pid_t command);

  const InheritedSignals& inherited_;
  std::unique_ptr<Witness> witness_;             // lives as long as we do, so that its death is not waited for
  std::optional<SteadyTime> hung_up_;            // when our group was, last
  std::optional<int> stop_;                      // the signal that stopped the command, and is to stop us; 0: no more
};

}  // namespace thole::host
