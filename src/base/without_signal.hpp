// A signal that the kernel sends a thread for its own write does not come in this scope, and none is left of it: the write
// fails with an errno as others do. SIGPIPE: nobody reads the pipe (EPIPE). SIGXFSZ: the file has its RLIMIT_FSIZE (EFBIG).
#pragma once

#include <csignal>

namespace thole {

// It is held back and taken away again, unless one was there before.
class WithoutSignal {
 public:
  explicit WithoutSignal(int signal);
  ~WithoutSignal();                              // errno stays
  WithoutSignal(const WithoutSignal&) = delete;
  WithoutSignal& operator=(const WithoutSignal&) = delete;

 private:
  sigset_t held_back_{}, before_{};
  bool was_there_ = false;
};

}  // namespace thole
