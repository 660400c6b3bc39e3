#include "base/stop_self.hpp"

#include <unistd.h>

#include <csignal>

namespace thole {

bool is_pending(int signal) {
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

// A stop signal takes a CONT away that is pending: it was sent later than the one which was read.
bool stop_self(int signal) {
  if (is_pending(SIGCONT)) return true;
  sigset_t only, mask;
  sigemptyset(&only);
  sigaddset(&only, signal);
  struct sigaction stop = {}, before = {};
  stop.sa_handler = SIG_DFL;
  if (signal != SIGSTOP) ::sigaction(signal, &stop, &before);
  ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, &mask);    // here we stand still
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (signal != SIGSTOP) ::sigaction(signal, &before, nullptr);
  return is_pending(SIGCONT);
}

}  // namespace thole
