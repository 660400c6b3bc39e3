// The groups of tasks, and what is asked to end with them.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "base/stream.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/task_pool.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using Kind = port::PoolEvent::Kind;

std::vector<std::string> describe(const std::vector<ProcessStat>& processes) {
  std::vector<std::string> words;
  for (const ProcessStat& process : processes) words.push_back(describe_process(process));
  return words;
}

bool is_same(const ProcessStat& one, const ProcessStat& other) {
  return one.pid == other.pid && one.start_ticks == other.start_ticks;
}

bool contains(const std::vector<ProcessStat>& processes, const ProcessStat& process) {
  return std::ranges::any_of(processes, [&](const ProcessStat& one) { return is_same(one, process); });
}

}  // namespace

// With its group; one that has left that for another (setpgid) is to hear it, too.
void EpollPool::signal_command(pid_t command, int number) {
  ::kill(-command, number);
  if (::getpgid(command) != command) ::kill(command, number);
}

void EpollPool::signal(std::size_t bay, model::Signal signal) {
  const pid_t command = bays_[bay]->pid;
  if (command <= 0) return;
  Bay& its = *bays_[bay];
  its.beside = all_of(its);                      // before: who ends leaves his children to us
  std::erase_if(its.beside, [command](const ProcessStat& one) { return one.pid == command || one.group == command; });
  signal_command(command, static_cast<int>(signal));
  signal_all(its.beside, static_cast<int>(signal));
  if (signal == model::Signal::kill || signal == model::Signal::stop) return;
  signal_command(command, SIGCONT);              // a stopped one must run to hear it
}

// The command, its group, who was beside it before, and what is below any of these, but for what a killed lane has left there:
// as of the last wait.
std::vector<ProcessStat> EpollPool::all_of(const Bay& bay) {
  if (!picture_) picture_ = our_descendants();
  std::vector<ProcessStat> all;
  std::set<pid_t> its{bay.pid};
  Newcomers newcomers;
  for (const ProcessStat& process : *picture_) { // parents come before children
    const bool may_be_new = newcomers.may_be_one(process);
    bool is_its = process.pid == bay.pid || process.group == bay.pid;
    if (!is_its && its.contains(process.parent)) is_its = !may_be_new || !is_of_a_lost_lane(process.pid, claims_);
    if (!is_its && !contains(bay.beside, process)) continue;
    its.insert(process.pid);
    all.push_back(process);
  }
  return all;
}

std::vector<std::string> EpollPool::group(std::size_t bay) {
  picture_.reset();
  return describe(all_of(*bays_[bay]));
}

bool EpollPool::has_ended(std::size_t number) {
  const Bay& bay = *bays_[number];
  return !bay.end || is_readable(bay.end.get());   // without it: its event has been made
}

std::vector<std::string> EpollPool::out_of_reach() {
  std::vector<ProcessStat> others = members();
  for (const auto& bay : bays_)
    if (bay) others.insert(others.end(), bay->beside.begin(), bay->beside.end());
  std::erase_if(others, [](const ProcessStat& process) { return signal_process(process, 0); });
  return out_of_reach_.new_ones(others);
}

// A member that has another parent than us is below one of these, or below what has left the group.
void EpollPool::give_up(std::size_t number) {
  Bay& bay = *bays_[number];
  for (const ProcessStat& process : our_descendants({{bay.pid}})) {
    const bool is_its = process.group == bay.pid || contains(bay.beside, process);
    if (process.parent == ::getpid() && is_its) strangers_.push_back(process.pid);
  }
  if (to_ == port::OutputTo::pipes)
    for (Stream* stream : {&bay.output, &bay.errors})
      if (stream->file) let_go(*stream);
  if (bay.end) forget(bay.end);
  if (std::exchange(bay.left_group, false)) --groups_left_;
  bay.given_up = true;
  let_go_of_group(bay);
}

void EpollPool::look_at_groups() {
  for (std::size_t number = 0; number < bays_.size(); ++number) {
    Bay* bay = bays_[number].get();
    if (!bay || !bay->left_group || group_lives(*bay)) continue;
    bay->left_group = false;
    if (to_ == port::OutputTo::pipes) end_streams(number);
    let_go_of_group(*bay);
    --groups_left_;
    port::PoolEvent event;
    event.kind = Kind::alone;
    event.bay = number;
    events_.push_back(std::move(event));
  }
}

// What has outlived its parent is our child now. WSTOPPED alone does not see who has ended: ECHILD, and nobody lives of it. A
// member that still has another parent is below a process that has left the group: it is left behind with that one.
// Who was asked to end with it is waited for, too.
bool EpollPool::group_lives(Bay& bay) const {
  std::erase_if(bay.beside, [](const ProcessStat& one) {
    const auto process = read_process(one.pid);
    return !process || !is_same(one, *process) || is_ended_state(process->state);
  });
  siginfo_t any{};
  return !bay.beside.empty() || ::waitid(P_PGID, static_cast<id_t>(bay.pid), &any, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

// Only now the kernel may give its number to strangers: nothing is signalled by it any more.
void EpollPool::let_go_of_group(Bay& bay) {
  while (reap(P_PGID, bay.pid) == Reaped::ended) {}
  bay.pid = 0;
  bay.beside.clear();
}

}  // namespace thole::host
