// A write to a pipe whose reader has gone fails with EPIPE in this scope, and no SIGPIPE is left of it.
#pragma once

#include <csignal>

namespace thole {

// The signal comes to the thread that writes. It is held back and taken away again, unless one was there before.
class NoPipeSignal {
 public:
  NoPipeSignal();
  ~NoPipeSignal();                               // errno stays
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_there_ = false;
};

}  // namespace thole
