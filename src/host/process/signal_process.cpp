#include "host/process/signal_process.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

bool Stopping::look(const std::vector<ProcessStat>& picture) {
  const auto is_stopped = [](const ProcessStat& process) { return process.state == 'T' || process.state == 't'; };
  // Whoever waits in vfork() for a stopped child cannot stop itself, and cannot go on either.
  const auto can_fork = [&](const ProcessStat& process) {
    return !is_stopped(process) && !(process.state == 'D' && std::ranges::any_of(picture, [&](const ProcessStat& child) {
             return child.parent == process.pid && is_stopped(child);
           }));
  };
  bool somebody_new = false;
  for (const ProcessStat& process : picture) {
    if (!met_.emplace(process.pid, process.start_ticks).second) continue;
    somebody_new = true;
    signal_process(process, SIGSTOP);
  }
  const bool over = were_stopped_ && !somebody_new;
  were_stopped_ = std::ranges::none_of(picture, can_fork);
  return over && were_stopped_;
}

}  // namespace thole::host
