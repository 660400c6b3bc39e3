#include "host/queue/task_commands.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/process/child_end.hpp"
#include "host/process/helpers.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/open_files.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/spawn.hpp"
#include "host/queue/task_processes.hpp"

namespace thole::host {

using model::Left;
using model::SentTo;
using model::Signal;

namespace {

constexpr unsigned most_pictures = 16;

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

}  // namespace

TaskCommands::TaskCommands(const InheritedSignals& inherited) : inherited_(inherited) {
  ::signal(SIGCHLD, SIG_DFL);           // ignored, the kernel would keep the statuses from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  children_ = descriptor_for(SIGCHLD);
  term_ = descriptor_for(SIGTERM);
}

pid_t TaskCommands::start(port::Bay bay, const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  const pid_t pid = launch.start();
  if (spec.identity) *spec.identity = identity_of(pid);
  Kept task;
  task.pid = task.group = pid;
  if (const auto mark = spec.set.find("THOLE_TASK"); mark != spec.set.end()) task.mark = mark->second;
  of_lane_ = task.mark.substr(std::min(task.mark.find('@'), task.mark.size()));
  tasks_.insert_or_assign(bay, std::move(task));
  return pid;
}

std::vector<std::string> TaskCommands::send(port::Bay bay, Signal signal, SentTo to) {
  Kept& task = tasks_.at(bay);
  const int number = static_cast<int>(signal);
  const bool stops = signal == Signal::stop;
  if (!stops) task.stopping.reset();
  if (stops && task.stopping) return {};         // the look stops those who are new
  const pid_t whole = task.pid != 0 ? task.group : 0;   // only as long as its number is the command's for sure
  if (stops) {
    task.stopping.emplace();
    task.told = {};                              // who hears CONT after this has not heard it yet
    if (whole != 0) signal_group_of_child(whole, SIGSTOP);   // also those of it that /proc hides
    return {};
  }
  if (signal == Signal::kill)
    freeze_and_kill_groups([&](std::vector<ProcessStat>& others) { return tree(task, &others); });
  std::vector<ProcessStat> told = tree(task);
  if (to == SentTo::group)                       // as Ctrl-C would; the command also where it has left its group
    std::erase_if(told,
                  [&](const ProcessStat& process) { return process.group != task.group && process.pid != task.pid; });
  return task.out_of_reach.new_ones(signal_all(task.told.not_yet(std::move(told), number), number, whole));
}

port::Rest TaskCommands::look(port::Bay bay, port::Names names) {
  Kept& task = tasks_.at(bay);
  port::Rest rest;
  if (task.stopping) rest.still = task.stopping->look(tree(task));
  const bool childless = is_childless();
  if (childless && (names == port::Names::no || task.pid == 0)) return rest;
  // A child that no picture of /proc shows is one all the same: it forks and ends faster than that is read, or we have no
  // descriptor to look with.
  const bool certain = !childless && is_alone(task) && kernel_lists_children_;
  if (certain) rest.left = Left::something;
  if (certain && names == port::Names::no) return rest;
  // Who forks and ends while that is read leaves us a child that is not in the picture: one more is taken then.
  std::vector<ProcessStat> its;
  const auto any_left = [&] {
    return std::ranges::any_of(its, [&](const ProcessStat& process) { return process.pid != task.pid; });
  };
  bool is_torn = true;
  for (unsigned picture = 0; picture < most_pictures && is_torn && !any_left(); ++picture) {
    const auto before = listed_children();
    its = tree(task);
    is_torn = listed_children() != before;
  }
  if (any_left()) rest.left = Left::something;
  else if (is_torn && !certain) rest.left = Left::unsure;
  if (names == port::Names::no) return rest;
  for (const ProcessStat& process : its) rest.who.push_back({process.pid, process.name, describe_process(process)});
  return rest;
}

std::span<const port::CommandEvent> TaskCommands::wait(std::optional<SteadyTime> deadline) {
  events_.clear();
  std::vector<pollfd> all{{children_.get(), POLLIN, 0}, {term_.get(), POLLIN, 0}};
  watched_.add_to(all);
  ::poll(all.data(), all.size(), poll_timeout(deadline, std::chrono::steady_clock::now()));
  took_any(children_);
  reap();
  if (took_any(term_)) events_.push_back(port::Signalled{SIGTERM});
  Watched::tell(std::span(all).subspan(2), events_);
  return events_;
}

// It is told how a command ended before that is buried: if we are killed before then, our parent is told.
void TaskCommands::reap() {
  bool stirred = false;
  while (const auto child = ended_child(P_ALL, 0)) {
    const auto found = std::ranges::find_if(tasks_, [&](const auto& entry) { return entry.second.pid == child->pid; });
    if (found != tasks_.end()) {
      port::CommandEnded end{found->first, child->how};
      if (before_burial) before_burial(end);
      events_.push_back(std::move(end));
      found->second.pid = 0;
    }
    stirred = true;
    bury_child(child->pid);
  }
  if (!stirred) return;
  const bool alone = is_childless();
  for (port::CommandEvent& event : events_)
    if (auto* end = std::get_if<port::CommandEnded>(&event)) end->alone = alone;
  events_.push_back(port::RestStirred{});        // what ends may have been what another waits for
}

// No other task is left, so that whatever is below us is this one's.
bool TaskCommands::is_alone(const Kept& task) const {
  return std::ranges::all_of(tasks_, [&](const auto& entry) { return &entry.second == &task; });
}

// No child but the commands themselves and helpers: almost always so, and then /proc need not be searched.
bool TaskCommands::is_childless() const {
  siginfo_t any{};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return true;
  const auto children = listed_children();
  return children && std::ranges::all_of(*children, [&](pid_t child) {
    return is_of_a_queue(child) || is_helper(child) ||
           std::ranges::any_of(tasks_, [&](const auto& entry) { return entry.second.pid == child; }) ||
           is_of_another_lane(child);
  });
}

// A runner that was started in a task of ours is below us, and so are its lanes, of this queue or another one: where both are
// killed their tasks become our children, or those of a process of the task that takes orphans in. They are looked after
// by the next runner. What has a lock of ours is of ours, whatever it shows; what has none, and shows another lane, is of that.
// What is closed to us may be anything: it is of ours.
bool TaskCommands::is_of_another_lane(pid_t child) const {
  if (!proc_numbers_are_ours()) return false;
  if (keeps_lane_lock(child)) return true;       // none that we have open, as we have our own
  if (keeps_a_lock_of_ours(child)) return false;
  const std::string mark = environment_of(child).word("THOLE_TASK=");
  return is_mark_of_a_task(mark) && mark.substr(mark.find('@')) != of_lane_;
}

// By its process group, its mark, or for want of any other task. What shows no mark and has left the group is nobody's, as long
// as several tasks are there: the last one's.
bool TaskCommands::is_of(const Kept& task, const ProcessStat& left) const {
  return is_alone(task) || left.group == task.group || carries_mark(left.pid, task.mark);
}

// Below the command, and what was left to us. `others`: all else that is below us.
std::vector<ProcessStat> TaskCommands::tree(const Kept& task, std::vector<ProcessStat>* others) const {
  std::vector<ProcessStat> its;
  enum class Of { nobody, this_task, another_command };
  std::map<pid_t, Of> known;                     // parents come before children
  std::vector<pid_t> commands;
  Newcomers newcomers;
  for (const auto& [bay, other] : tasks_) commands.push_back(other.pid);
  for (auto& process : our_descendants(commands)) {
    Of whose = known[process.parent];
    const bool may_be_new = newcomers.may_be_one(process) && whose != Of::another_command;
    if (process.pid == task.pid) whose = Of::this_task;
    else if (std::ranges::find(commands, process.pid) != commands.end()) whose = Of::another_command;
    else if (may_be_new && is_of_another_lane(process.pid)) whose = Of::another_command;
    else if (whose == Of::nobody && is_of(task, process)) whose = Of::this_task;   // whose parent may be about to end
    known[process.pid] = whose;
    if (whose == Of::this_task) its.push_back(std::move(process));
    else if (others) others->push_back(std::move(process));
  }
  return its;
}

}  // namespace thole::host
