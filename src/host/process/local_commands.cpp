#include "host/process/local_commands.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/process/child_end.hpp"
#include "host/process/helpers.hpp"
#include "host/process/identity.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/spawn.hpp"

namespace thole::host {

using model::Left;
using model::SentTo;
using model::Signal;

namespace {

constexpr unsigned most_pictures = 16;

// Our children now. Almost always none, and then /proc is not searched.
std::vector<pid_t> children_now() {
  siginfo_t any = {};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return {};
  std::vector<pid_t> children;
  for (const auto& process : our_descendants())
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

std::string word_of(const port::ProcessSpec& spec, const char* name) {
  const auto found = spec.set.find(name);
  return found == spec.set.end() ? std::string() : found->second;
}

}  // namespace

LocalCommands::LocalCommands(const InheritedSignals& inherited, Runs runs) : inherited_(inherited) {
  if (runs == Runs::in_foreground) foreground_ = std::make_unique<Foreground>(inherited);
  else blocked_ = take_signals();
}

// Before there is a command that could leave anything behind.
std::unique_ptr<AllSignalsBlocked> LocalCommands::take_signals() {
  auto blocked = std::make_unique<AllSignalsBlocked>();
  sigset_t heard;
  sigemptyset(&heard);
  if (foreground_) heard = foreground_->signals();
  else sigaddset(&heard, SIGTERM);
  sigaddset(&heard, SIGCHLD);
  signals_ = Fd(above_standard(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!signals_) throw not_had("cannot watch over the command", errno);
  ::signal(SIGCHLD, SIG_DFL);               // ignored, the kernel would keep a command's status from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return blocked;
}

void LocalCommands::look_for_strangers() {
  strangers_ = children_now();
  had_strangers_ = !strangers_.empty() || ::getpid() == 1;   // the first of a container gets everybody's orphans
  since_ = ticks_now();
}

pid_t LocalCommands::start(port::Bay bay, const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  std::unique_ptr<AllSignalsBlocked> blocked;
  if (foreground_) {
    foreground_->let_go();
    look_for_strangers();
    blocked = take_signals();
    foreground_->begin();                   // before any signal can be meant for the command
    cgroup_ = std::make_unique<JobCgroup>("");
  }
  Kept kept;
  kept.pid = launch.start(cgroup_ ? cgroup_->directory() : -1);
  if (foreground_) foreground_->began(kept.pid);
  if (blocked) blocked_ = std::move(blocked);
  if (spec.identity) *spec.identity = identity_of_child(kept.pid);
  if (spec.own_group) kept.own_group = kept.pid;
  kept.mark = word_of(spec, "THOLE_TASK");
  kept.claim = word_of(spec, "THOLE_CLAIM");
  const pid_t pid = kept.pid;
  kept_.insert_or_assign(bay, std::move(kept));
  return pid;
}

std::vector<std::string> LocalCommands::send(port::Bay bay, Signal signal, SentTo to) {
  Kept& kept = kept_.at(bay);
  const int number = static_cast<int>(signal);
  const bool stops = signal == Signal::stop;
  if (!stops) kept.stopping.reset();
  if (stops && kept.stopping) return {};         // the look stops those who are new
  const pid_t group = kept.own_group != 0 ? kept.own_group : kept.pid != 0 ? ::getpgid(kept.pid) : 0;
  const pid_t whole = group == kept.pid ? kept.pid : 0;   // only as long as its number is the command's for sure
  if (stops) {
    kept.stopping.emplace();
    kept.told = {};                              // who hears CONT after this has not heard it yet
    if (whole != 0) signal_group_of_child(whole, SIGSTOP);   // also those of it that /proc hides
    return {};
  }
  if (signal == Signal::kill) {                  // what a picture of the tree may miss: what is in the cgroup, and what forks
    if (cgroup_) cgroup_->kill();
    freeze_and_kill_groups([&](std::vector<ProcessStat>& others) { return tree(kept, &others); });
  }
  std::vector<ProcessStat> told = tree(kept);
  if (to == SentTo::group)                       // as Ctrl-C would; the command also where it has left its group
    std::erase_if(told, [&](const ProcessStat& process) { return process.group != group && process.pid != kept.pid; });
  return kept.out_of_reach.new_ones(signal_all(kept.told.not_yet(std::move(told), number), number, whole));
}

port::Rest LocalCommands::look(port::Bay bay, port::Names names) {
  Kept& kept = kept_.at(bay);
  port::Rest rest;
  if (kept.stopping) rest.still = kept.stopping->look(tree(kept));
  if (names == port::Names::yes) rest.spared = spared();
  const bool childless = is_childless();
  if (childless && (names == port::Names::no || kept.pid == 0)) return rest;
  if (foreground_ && !proc_numbers_are_ours()) { // its numbers name strangers: nothing is looked for by them
    rest.left = childless ? Left::nothing : Left::unseen;
    return rest;
  }
  // A child that no picture of /proc shows is one all the same: it forks and ends faster than that is read, or we have no
  // descriptor to look with.
  const bool certain = !childless && is_alone(kept) && kernel_lists_children_;
  if (certain) rest.left = Left::something;
  if (certain && names == port::Names::no) return rest;
  // Who forks and ends while that is read leaves us a child that is not in the picture: one more is taken then.
  std::vector<ProcessStat> its;
  const auto any_left = [&] {
    return std::ranges::any_of(its, [&](const ProcessStat& process) { return process.pid != kept.pid; });
  };
  bool is_torn = true;
  for (unsigned picture = 0; picture < most_pictures && is_torn && !any_left(); ++picture) {
    const auto before = listed_children();
    its = tree(kept);
    is_torn = listed_children() != before;
  }
  if (any_left()) rest.left = Left::something;
  else if (is_torn && !certain) rest.left = Left::unsure;
  if (names == port::Names::no) return rest;
  for (const ProcessStat& process : its) rest.who.push_back({process.pid, process.name, describe_process(process)});
  return rest;
}

void LocalCommands::let_go(port::Bay bay) {
  kept_.erase(bay);
  if (!foreground_) return;
  cgroup_->remove();
  blocked_.reset();
}

std::span<const port::CommandEvent> LocalCommands::wait(std::optional<SteadyTime> deadline) {
  events_.clear();
  if (foreground_)
    if (const auto slept = foreground_->stand_still(command_in_foreground())) {
      events_.push_back(*slept);
      return events_;
    }
  std::vector<pollfd> all{{signals_.get(), POLLIN, 0}};
  watched_.add_to(all);
  if (::poll(all.data(), all.size(), poll_timeout(deadline, std::chrono::steady_clock::now())) <= 0) all.clear();
  read_signals();
  reap();                                        // who has ended by himself was not asked to
  if (!all.empty()) Watched::tell(std::span(all).subspan(1), events_);
  return events_;
}

pid_t LocalCommands::command_in_foreground() const { return kept_.empty() ? 0 : kept_.begin()->second.pid; }

void LocalCommands::read_signals() {
  signalfd_siginfo signal;
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo == SIGCHLD) continue;
    if (foreground_) foreground_->take(signal, command_in_foreground(), events_);
    else events_.push_back(port::Signalled{static_cast<int>(signal.ssi_signo)});
  }
}

// It is told how a command ended before that is buried: if we are killed before then, our parent is told.
void LocalCommands::reap() {
  bool others = false, commands = false;
  while (const auto child = ended_child(P_ALL, 0)) {
    const auto found = std::ranges::find_if(kept_, [&](const auto& entry) { return entry.second.pid == child->pid; });
    if (found != kept_.end()) {
      port::CommandEnded end{found->first, child->how};
      if (before_burial) before_burial(end);
      events_.push_back(std::move(end));
      found->second.pid = 0;
      commands = true;
    } else {
      others = true;
    }
    bury_child(child->pid);
    std::erase(strangers_, child->pid);          // another process may have its number next
    if (foreground_) foreground_->ended(child->pid);
    if (foreground_ && found != kept_.end()) foreground_->command_ended();
  }
  if (foreground_) foreground_->look_for_stops(command_in_foreground(), events_);
  if (commands) {                                // after all that has ended with it
    const bool alone = is_childless();
    for (port::CommandEvent& event : events_)
      if (auto* end = std::get_if<port::CommandEnded>(&event)) end->alone = alone;
  }
  if (others || (commands && kept_.size() > 1)) events_.push_back(port::RestStirred{});   // another may have waited for it
}

bool LocalCommands::is_a_command(pid_t child) const {
  return std::ranges::any_of(kept_, [child](const auto& entry) { return entry.second.pid == child; });
}

// No other command is left, so that whatever is below us is this one's.
bool LocalCommands::is_alone(const Kept& kept) const {
  return std::ranges::all_of(kept_, [&](const auto& entry) { return &entry.second == &kept; });
}

// No child but the commands themselves, helpers and who is apart: almost always so, and then /proc need not be searched.
// Whoever lives below us has a child of ours above it, for orphans become ours; and only we take a child off this list, by
// waiting for it. (A search of /proc may miss all of what forks and ends faster than it is read.)
bool LocalCommands::is_childless() const {
  siginfo_t any{};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD) return true;
  const auto children = listed_children();
  return children && std::ranges::all_of(*children, [&](pid_t child) {
    if (is_a_command(child) || is_apart(child) || is_of_a_queue(child) || is_helper(child) || is_of_another_lane(child))
      return true;
    if (!had_strangers_) return false;
    ProcessStat hidden;
    hidden.pid = child;
    hidden.hidden = true;
    return is_spared((proc_numbers_are_ours() ? read_process(child) : std::nullopt).value_or(hidden));
  });
}

bool LocalCommands::is_apart(pid_t child) const {
  return (foreground_ && child == foreground_->witness()) || std::ranges::find(strangers_, child) != strangers_.end();
}

// A runner that was started in a task of ours is below us, and so are its lanes, of this queue or another one: where both are
// killed their tasks become our children, or those of a process of the task that takes orphans in. They are looked after
// by the next runner.
bool LocalCommands::is_of_another_lane(pid_t child) const {
  if (kept_.empty()) return false;
  const Kept& any = kept_.begin()->second;
  return is_of_a_lost_lane(child, {&any.claim, 1}, lane_of_mark(any.mark));
}

// What a shell has started that has become us by exec leaves us its children as the command does; so does who enters a
// container whose first process we are.
bool LocalCommands::is_spared(const ProcessStat& child) const {
  if (!had_strangers_ || kept_.empty() || kept_.begin()->second.claim.empty()) return false;
  const Origin origin = origin_of(child, since_);
  return !origin.may_be_ours && !is_within(origin.claim, kept_.begin()->second.claim);
}

std::vector<std::string> LocalCommands::spared() const {
  std::vector<std::string> words;
  if (!had_strangers_) return words;
  for (const ProcessStat& process : our_descendants())
    if (process.parent == ::getpid() && is_spared(process) && !is_apart(process.pid) && !is_of_another_lane(process.pid))
      words.push_back(describe_process(process));
  return words;
}

// By its process group, its mark, or for want of any other command. What shows no mark and has left the group is nobody's, as
// long as several commands are there: the last one's.
bool LocalCommands::is_of(const Kept& kept, const ProcessStat& left) const {
  return is_alone(kept) || left.group == kept.own_group || carries_mark(left.pid, kept.mark);
}

// Below the command, and what was left to us. `others`: all else that is below us.
std::vector<ProcessStat> LocalCommands::tree(const Kept& kept, std::vector<ProcessStat>* others) const {
  std::vector<ProcessStat> its;
  enum class Of { nobody, this_command, another };
  std::map<pid_t, Of> known;                     // parents come before children
  std::vector<pid_t> commands;
  Newcomers newcomers;
  for (const auto& [bay, other] : kept_) commands.push_back(other.pid);
  const auto is_anothers = [&](const ProcessStat& process) {
    return is_of_another_lane(process.pid) || (process.parent == ::getpid() && is_spared(process));
  };
  for (auto& process : our_descendants(commands)) {
    Of whose = known[process.parent];
    const bool may_be_new = newcomers.may_be_one(process) && whose != Of::another;
    if (process.pid == kept.pid) whose = Of::this_command;
    else if (is_a_command(process.pid) || is_apart(process.pid) || (may_be_new && is_anothers(process))) whose = Of::another;
    else if (whose == Of::nobody && is_of(kept, process)) whose = Of::this_command;   // whose parent may be about to end
    known[process.pid] = whose;
    if (whose == Of::this_command) its.push_back(std::move(process));
    else if (others) others->push_back(std::move(process));
  }
  return its;
}

}  // namespace thole::host
