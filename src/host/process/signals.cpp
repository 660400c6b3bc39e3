#include "host/process/signals.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/want.hpp"

namespace thole::host {

InheritedSignals InheritedSignals::capture() {
  InheritedSignals inherited;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &inherited.mask);
  sigemptyset(&inherited.ignored);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action;
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) sigaddset(&inherited.ignored, signal);
  }
  return inherited;
}

void InheritedSignals::restore(void (*at_stop)(int)) const {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action = {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;  // libc keeps two for itself
    auto wanted = ignores(signal) ? SIG_IGN : is_stop(signal) ? at_stop : SIG_DFL;
    if (action.sa_handler == wanted) continue;
    action = {};
    action.sa_handler = wanted;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

AllSignalsBlocked::AllSignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

AllSignalsBlocked::~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Interruption::Interruption(const InheritedSignals& inherited) {
  sigset_t ending;
  sigemptyset(&ending);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (!inherited.ignores(signal)) sigaddset(&ending, signal);
  ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
  fd_ = Fd(above_standard(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (fd_) return;
  int reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  throw not_had("cannot watch for signals", reason);
}

Interruption::~Interruption() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> Interruption::taken() {
  signalfd_siginfo got;
  if (::read(fd_.get(), &got, sizeof got) != sizeof got) return std::nullopt;
  return static_cast<int>(got.ssi_signo);
}

void die_by(int signal) {
  rlimit no_core = {};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core_pattern that pipes to a program ignores the limit
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);  // pid 1, or a signal whose default is not to end
}

}  // namespace thole::host
