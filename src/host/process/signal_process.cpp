#include "host/process/signal_process.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.hpp"

namespace thole::host {

void signal_process(const ProcessStat& process, int signal) {
  const Fd fd = open_pidfd(process.pid);
  if (!fd && errno != ENOSYS) return;
  const auto now = read_process(process.pid);
  if (!now || now->start_ticks != process.start_ticks) return;
  if (fd) ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0);
  else ::kill(process.pid, signal);
}

}  // namespace thole::host
