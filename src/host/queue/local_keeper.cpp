#include "host/queue/local_keeper.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/process/helpers.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/spawn.hpp"
#include "host/queue/task_processes.hpp"

namespace thole::host {
namespace {

using std::chrono::steady_clock;

constexpr Millis most_in_doubt{1'000};           // the signals that end everything come one after the other
constexpr Millis first_look_pause{1}, longest_look_pause{1'000};   // while what is paused has not stopped yet

// What a machine that goes down sends to all.
bool ends_everything(int signal) { return signal == SIGTERM || signal == SIGHUP || signal == SIGKILL; }

Fd descriptor_for(int signal) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, signal);
  Fd fd(above_standard(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!fd) throw not_had("cannot watch over tasks", errno);
  return fd;
}

bool took_any(const Fd& signals) {
  signalfd_siginfo signal;
  bool any = false;
  while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) any = true;
  return any;
}

// Before it execs a child is counted with our memory: a smaller figure says nothing about the command.
long own_peak_kib() {
  rusage ours{};
  return ::getrusage(RUSAGE_SELF, &ours) == 0 ? ours.ru_maxrss : 0;
}

}  // namespace

LocalKeeper::LocalKeeper(const InheritedSignals& inherited) : inherited_(inherited) {
  ::signal(SIGCHLD, SIG_DFL);           // ignored, the kernel would keep the statuses from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  children_ = descriptor_for(SIGCHLD);
  term_ = descriptor_for(SIGTERM);
}

pid_t LocalKeeper::start(const port::ProcessSpec& spec, const port::TaskRun& run) {
  Launch launch(spec, inherited_);
  const pid_t pid = launch.start();
  if (run.identity) *run.identity = identity_of(pid);
  Kept task;
  task.run = run;
  task.pid = task.group = pid;
  task.result.place = run.place;
  if (run.time_limit) task.deadline = steady_clock::now() + *run.time_limit;
  tasks_.insert_or_assign(run.place, std::move(task));
  return pid;
}

void LocalKeeper::stop(unsigned place) {
  const auto found = tasks_.find(place);
  if (found == tasks_.end() || found->second.phase != Phase::running || found->second.step > 0) return;
  found->second.result.cancelled = true;
  next_step_against_command(found->second);
}

void LocalKeeper::pause(unsigned place, bool paused) {
  const auto found = tasks_.find(place);
  if (found == tasks_.end() || found->second.phase != Phase::running || found->second.paused == paused) return;
  Kept& task = found->second;
  task.paused = paused;
  const auto now = steady_clock::now();
  if (paused) {
    task.halt = Halt{{}, first_look_pause, now};
    signal_group_of_child(task.group, SIGSTOP);  // also those of it that /proc hides
    stop_more(task, now);
  } else {
    task.halt.reset();
    signal_these(task, tree(task), SIGCONT);
  }
  if (paused && task.deadline && task.step == 0) {
    task.left = std::chrono::duration_cast<Millis>(*task.deadline - now);
    task.deadline.reset();
  } else if (!paused && task.run.time_limit && task.step == 0) {
    task.deadline = now + task.left;
  }
}

// What forks while it is being stopped, or cannot stop yet, is looked for again: later, so that other tasks need not wait.
void LocalKeeper::stop_more(Kept& task, SteadyTime now) {
  if (task.halt->stopping.look(tree(task))) return task.halt.reset();
  task.halt->next_look = now + task.halt->pause;
  task.halt->pause = std::min(task.halt->pause * 2, longest_look_pause);
}

bool LocalKeeper::told_to_end() {
  if (took_any(term_)) told_to_end_ = true;
  return told_to_end_;
}

std::vector<port::TaskOver> LocalKeeper::wait(std::span<const int> also, std::optional<SteadyTime> deadline) {
  std::vector<pollfd> watched{{children_.get(), POLLIN, 0}, {term_.get(), POLLIN, 0}};
  for (int fd : also) watched.push_back({fd, POLLIN, 0});
  for (const auto& [place, task] : tasks_) {
    if (task.deadline && (!deadline || *task.deadline < *deadline)) deadline = task.deadline;
    if (task.halt && (!deadline || task.halt->next_look < *deadline)) deadline = task.halt->next_look;
    if (task.in_doubt_until && (!deadline || *task.in_doubt_until < *deadline)) deadline = task.in_doubt_until;
  }
  ::poll(watched.data(), watched.size(), poll_timeout(deadline, steady_clock::now()));
  took_any(children_);
  reap();
  const bool told = told_to_end();
  const auto now = steady_clock::now();
  std::vector<port::TaskOver> over;
  for (auto& [place, task] : tasks_) {
    if (task.halt && now >= task.halt->next_look) stop_more(task, now);
    if (task.deadline && now >= *task.deadline) deadline_passed(task, now);
    if (task.in_doubt_until && (told || now >= *task.in_doubt_until)) {
      task.result.taken_down = told;
      task.in_doubt_until.reset();
    }
    if (task.phase == Phase::over && !task.in_doubt_until) over.push_back(std::move(task.result));
  }
  for (const auto& done : over) tasks_.erase(done.place);
  return over;
}

void LocalKeeper::reap() {
  int status = 0;
  rusage used{};
  bool rest_changed = false;
  for (pid_t pid; (pid = ::wait4(-1, &status, WNOHANG, &used)) > 0;) {
    const auto of_pid = [&](const auto& entry) { return entry.second.pid == pid; };
    const auto found = std::find_if(tasks_.begin(), tasks_.end(), of_pid);
    rest_changed = true;
    if (found == tasks_.end()) continue;
    if (used.ru_maxrss > own_peak_kib()) found->second.result.peak_memory_kib = static_cast<std::uint64_t>(used.ru_maxrss);
    command_ended(found->second, status);
  }
  if (!rest_changed) return;
  for (auto& [place, task] : tasks_)
    if (task.phase != Phase::running && task.phase != Phase::over) look_at_rest(task);
}

void LocalKeeper::command_ended(Kept& task, int status) {
  if (WIFEXITED(status)) task.result.ended.exit_code = WEXITSTATUS(status);
  else task.result.ended.signal = WTERMSIG(status);
  task.result.ended.core = WIFSIGNALED(status) && WCOREDUMP(status);
  task.halt.reset();
  task.pid = 0;
  task.phase = Phase::settling;
  task.step = 0;
  task.deadline = steady_clock::now() + port::settling_time;
  const bool is_ours = task.result.cancelled || task.result.ended.time_limit;
  if (WIFSIGNALED(status) && ends_everything(WTERMSIG(status)) && !is_ours)
    task.in_doubt_until = steady_clock::now() + most_in_doubt;
}

void LocalKeeper::deadline_passed(Kept& task, SteadyTime now) {
  task.deadline.reset();
  switch (task.phase) {
    case Phase::running:
      if (task.step == 0) task.result.ended.time_limit = true;
      return next_step_against_command(task);
    case Phase::settling: return name_rest(task, now);
    case Phase::ending: return next_step_against_rest(task, now);
    case Phase::lingering: case Phase::over: return;
  }
}

void LocalKeeper::next_step_against_command(Kept& task) {
  task.halt.reset();
  static constexpr int steps[] = {SIGINT, SIGTERM, SIGKILL};
  const int signal = steps[std::min(task.step++, 2)];
  std::vector<ProcessStat> told = tree(task);
  if (signal == SIGINT)                            // as Ctrl-C would; the command also where it has left its group
    std::erase_if(told, [&](const ProcessStat& process) { return process.group != task.group && process.pid != task.pid; });
  signal_these(task, told, signal);
  task.deadline = steady_clock::now() + task.run.patience;
}

void LocalKeeper::look_at_rest(Kept& task) {
  if (is_gone(task, task.phase != Phase::settling)) task.phase = Phase::over;
}

// The group only as long as its number is the command's for sure.
void LocalKeeper::signal_these(Kept& task, const std::vector<ProcessStat>& processes, int signal) {
  const pid_t whole = task.phase == Phase::running ? task.group : 0;
  task.out_of_reach.tell(signal_all(processes, signal, whole), task.run.on_out_of_reach);
}

// No other task is left, so that whatever is below us is this one's.
bool LocalKeeper::is_alone(const Kept& task) const {
  return std::ranges::all_of(tasks_, [&](const auto& entry) {
    return &entry.second == &task || entry.second.phase == Phase::over;
  });
}

// No child but the commands themselves: almost always so, and then /proc need not be searched. A child that no picture of
// /proc shows is one all the same: it forks and ends faster than that is read, or we have no descriptor to look with.
bool LocalKeeper::is_gone(const Kept& task, bool settled) const {
  siginfo_t any{};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return true;
  const auto children = listed_children();
  const bool is_childless = children && std::ranges::all_of(*children, [&](pid_t child) {
    return is_of_a_queue(child) || is_helper(child) ||
           std::ranges::any_of(tasks_, [&](const auto& entry) { return entry.second.pid == child; });
  });
  if (is_childless) return true;
  if (is_alone(task) && kernel_lists_children_) return false;
  return settled && tree(task).empty();
}

void LocalKeeper::name_rest(Kept& task, SteadyTime now) {
  if (is_gone(task, true)) { task.phase = Phase::over; return; }
  const auto rest = tree(task);
  for (const auto& process : rest) task.result.ended.left_behind.push_back(describe_process(process));
  task.phase = task.run.linger ? Phase::lingering : Phase::ending;
  if (task.phase == Phase::ending) next_step_against_rest(task, now);
}

void LocalKeeper::next_step_against_rest(Kept& task, SteadyTime now) {
  const bool first = task.step++ == 0;
  if (!first && !task.give_up) task.give_up = now + std::max(task.run.patience, port::killed_end);
  GroupsBelow groups;
  if (!first)
    freeze([&] {
      std::vector<ProcessStat> others, its = tree(task, &others);
      groups.saw(its, others);
      return its;
    });
  groups.kill();
  signal_these(task, tree(task), first ? SIGTERM : SIGKILL);
  task.deadline = now + (first ? task.run.patience : port::kill_again);
  if (task.give_up && now >= *task.give_up) task.phase = Phase::over;
}

// By its process group, its mark, or for want of any other task. What shows no mark and has left the group is nobody's, as long
// as several tasks are there: the last one's.
bool LocalKeeper::is_of(const Kept& task, const ProcessStat& left_to_us) const {
  return is_alone(task) || left_to_us.group == task.group || carries_mark(left_to_us.pid, task.run.mark);
}

// Below the command, and what was left to us. `others`: all else that is below us.
std::vector<ProcessStat> LocalKeeper::tree(const Kept& task, std::vector<ProcessStat>* others) const {
  std::vector<ProcessStat> its;
  std::map<pid_t, bool> known;                    // parents come before children
  const pid_t us = ::getpid();
  std::vector<pid_t> commands;
  for (const auto& [place, other] : tasks_) commands.push_back(other.pid);
  for (auto& process : our_descendants(commands)) {
    bool ours = process.pid == task.pid;
    if (!ours && process.parent != us) ours = known[process.parent];
    else if (!ours) {
      ours = std::ranges::find(commands, process.pid) == commands.end() && is_of(task, process);
    }
    known[process.pid] = ours;
    if (ours) its.push_back(std::move(process));
    else if (others) others->push_back(std::move(process));
  }
  return its;
}

}  // namespace thole::host
