// Signals as a program finds and leaves them: what was inherited, a block over all, and a descriptor for interrupts.
#pragma once

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>

#include "base/fd.hpp"

namespace thole::host {

// Those that stop a process and can be kept from that.
constexpr int stop_signals[] = {SIGTSTP, SIGTTIN, SIGTTOU};
inline bool is_stop(int signal) { return std::ranges::find(stop_signals, signal) != std::end(stop_signals); }

// The mask and the ignored signals this program was started with; a job must find the same (nohup, background jobs of sh).
struct InheritedSignals {
  sigset_t mask;
  sigset_t ignored;

  static InheritedSignals capture();  // call it first in main
  bool ignores(int signal) const { return sigismember(&ignored, signal) == 1; }

  // Makes the calling process see signals as inherited. Async-signal-safe: used between fork and exec. `at_stop` is what the
  // stop signals get that are not ignored: execve makes SIG_DFL of a handler.
  void restore(void (*at_stop)(int)) const;
};

// Blocks every signal in this thread from construction to destruction.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked();
  ~AllSignalsBlocked();
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// While it lives, INT, TERM, HUP and QUIT (those not ignored at start) do not end the program but make fd() readable, so that a
// wait can be left in order. Construct it while no other thread runs.
class Interruption {
 public:
  explicit Interruption(const InheritedSignals& inherited);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  int fd() const { return fd_.get(); }
  std::optional<int> taken();  // the signal that came, if one did; takes it off the descriptor

 private:
  sigset_t before_;
  Fd fd_;
};

// Ends this process by `signal`, without a second core file; as pid 1, where signals do not kill, with status 128+signal.
[[noreturn]] void die_by(int signal);

}  // namespace thole::host
