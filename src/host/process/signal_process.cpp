#include "host/process/signal_process.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/stream.hpp"

namespace thole::host {

bool signal_process(const ProcessStat& process, int signal) {
  if (process.hidden) return ::kill(process.pid, signal) == 0 || errno != EPERM;   // our child: nobody else waits for it
  const Fd fd = open_pidfd(process.pid);
  if (!fd && errno != ENOSYS) return true;
  const auto now = read_process(process.pid);
  if (!now || now->start_ticks != process.start_ticks) return true;
  const long sent = fd ? ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) : ::kill(process.pid, signal);
  return sent == 0 || errno != EPERM;
}

bool signal_by_pidfd(const Fd& process, int signal) {
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

bool signal_group_by_pidfd(const Fd& leader, pid_t number, int signal) {
  constexpr unsigned to_its_group = 1u << 2;     // PIDFD_SIGNAL_PROCESS_GROUP, from Linux 6.9
  if (::syscall(SYS_pidfd_send_signal, leader.get(), signal, nullptr, to_its_group) == 0) return true;
  if (errno != EINVAL || !leader) return false;
  if (is_readable(leader.get())) {               // its number may be free for others
    errno = ESRCH;
    return false;
  }
  return ::kill(-number, signal) == 0;
}

Fd signal_found(pid_t number, const std::function<bool()>& is_it, int signal) {
  if (number <= 0 || number == ::getpid() || !proc_numbers_are_ours()) return Fd();
  Fd process = open_pidfd(number);
  if (!process || !is_it() || !signal_by_pidfd(process, signal)) return Fd();
  return process;
}

void signal_child(pid_t child, int signal) {
  if (child > 0) ::kill(child, signal);
}

void signal_group_of_child(pid_t child, int signal) {
  if (child > 0) ::kill(-child, signal);
}

bool is_any_process(pid_t number) { return ::kill(number, 0) == 0 || errno != ESRCH; }

std::vector<ProcessStat> signal_all(const std::vector<ProcessStat>& picture, int signal, pid_t whole) {
  std::set<pid_t> groups;
  if (whole > 0) groups.insert(whole);
  for (const ProcessStat& process : picture)
    if (process.hidden && process.group == process.pid) groups.insert(process.group);
  const bool goes_on = signal != SIGKILL && signal != SIGSTOP && signal != SIGCONT;
  for (const pid_t group : groups) {
    ::kill(-group, signal);
    if (goes_on) ::kill(-group, SIGCONT);
  }
  std::vector<ProcessStat> out_of_reach;
  for (const ProcessStat& process : picture) {
    const bool told = groups.contains(process.group);
    if (!signal_process(process, told ? 0 : signal)) out_of_reach.push_back(process);
    else if (!told && goes_on) signal_process(process, SIGCONT);
  }
  return out_of_reach;
}

std::vector<std::string> ToldOnce::new_ones(const std::vector<ProcessStat>& processes) {
  std::vector<std::string> words;
  for (const ProcessStat& process : processes)
    if (told_.emplace(process.pid, process.start_ticks).second) words.push_back(describe_process(process));
  return words;
}

void freeze_and_kill_groups(const std::function<std::vector<ProcessStat>(std::vector<ProcessStat>& others)>& look) {
  GroupsBelow groups;
  freeze([&] {
    std::vector<ProcessStat> others, its = look(others);
    groups.saw(its, others);
    return its;
  });
  groups.kill();
}

std::vector<ProcessStat> OnceEach::not_yet(std::vector<ProcessStat> processes, int signal) {
  if (std::exchange(signal_, signal) != signal) told_.clear();
  if (signal != SIGKILL)
    std::erase_if(processes,
                  [&](const ProcessStat& process) { return !told_.emplace(process.pid, process.start_ticks).second; });
  return processes;
}

void ToldOnce::tell(const std::vector<ProcessStat>& processes, const Tell& tell) {
  const std::vector<std::string> words = new_ones(processes);
  if (tell && !words.empty()) tell(words);
}

void freeze(const std::function<std::vector<ProcessStat>()>& look) {
  Stopping stopping;
  for (int looks = 0; looks < 10 && !stopping.look(look()); ++looks) {}
}

void GroupsBelow::saw(const std::vector<ProcessStat>& picture, const std::vector<ProcessStat>& others) {
  for (const ProcessStat& process : picture) groups_.insert(process.group);
  for (const ProcessStat& process : others) others_sessions_.insert(::getsid(process.pid));
}

// A child that has ended stays in its group until it is waited for, and the group's number is nobody else's so long.
void GroupsBelow::kill() const {
  const pid_t ours = ::getsid(0);
  for (const pid_t child : listed_children().value_or(std::vector<pid_t>{})) {
    const pid_t group = ::getpgid(child), session = ::getsid(child);
    if (group <= 1 || !groups_.contains(group)) continue;
    if (session <= 0 || session == ours || others_sessions_.contains(session)) continue;   // 0: of another pid namespace
    const auto process = read_process(child);
    if (process && is_ended_state(process->state)) ::kill(-group, SIGKILL);
  }
}

bool Stopping::look(const std::vector<ProcessStat>& picture) {
  const auto is_stopped = [](const ProcessStat& process) { return is_stopped_state(process.state); };
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
