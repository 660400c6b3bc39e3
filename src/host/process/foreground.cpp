#include "host/process/foreground.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/child_end.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/spawn.hpp"

namespace thole::host {

using model::Left;
using model::SentTo;
using model::Signal;
using std::chrono::steady_clock;

namespace {

// Our children now. Almost always none, and then /proc is not searched.
std::vector<pid_t> children_now() {
  siginfo_t any = {};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return {};
  std::vector<pid_t> children;
  for (const auto& process : our_descendants())
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

// Those that are ignored stay so, here and there.
Fd descriptor_of_all_but_ignored(const InheritedSignals& inherited) {
  sigset_t watched;
  sigfillset(&watched);
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (inherited.ignores(signal) && signal != SIGCHLD) sigdelset(&watched, signal);
  Fd signals(above_standard(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!signals) throw not_had("cannot watch over the command", errno);
  return signals;
}

Fd our_terminal() { return open_at(AT_FDCWD, "/dev/tty", O_RDWR | O_NOCTTY); }

}  // namespace

pid_t Foreground::start(port::Bay, const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  witness_.reset();
  strangers_ = children_now();
  had_strangers_ = !strangers_.empty() || ::getpid() == 1;   // the first of a container gets everybody's orphans
  since_ = ticks_now();
  const auto claim = spec.set.find("THOLE_CLAIM");
  claim_ = claim == spec.set.end() ? std::string() : claim->second;
  auto blocked = std::make_unique<AllSignalsBlocked>();
  signals_ = descriptor_of_all_but_ignored(inherited_);
  ::signal(SIGCHLD, SIG_DFL);               // ignored, the kernel would keep the command's status from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);       // before it can leave anything behind
  witness_ = std::make_unique<Witness>();   // before any signal can be meant for the command
  cgroup_ = std::make_unique<JobCgroup>("");
  command_ = launch.start(cgroup_->directory());
  blocked_ = std::move(blocked);
  told_ = {};
  out_of_reach_ = {};
  return command_;
}

std::span<const port::CommandEvent> Foreground::wait(std::optional<SteadyTime> deadline) {
  events_.clear();
  if (const auto signal = std::exchange(stop_, std::nullopt)) {
    const SteadyTime before = steady_clock::now();
    follow_stop(*signal);
    events_.push_back(port::WeSlept{std::chrono::duration_cast<Millis>(steady_clock::now() - before)});
    return events_;
  }
  std::vector<pollfd> all{{signals_.get(), POLLIN, 0}};
  watched_.add_to(all);
  if (::poll(all.data(), all.size(), poll_timeout(deadline, steady_clock::now())) <= 0) return events_;
  if (all[0].revents) take_signals();            // who has ended by himself was not asked to
  Watched::tell(std::span(all).subspan(1), events_);
  return events_;
}

void Foreground::take_signals() {
  signalfd_siginfo signal;
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) take_signal(signal);
}

void Foreground::take_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD) return reap();
  if (command_ == 0 && number == SIGTSTP) return will_stop(number);   // with what it has left behind, for the shell's sake
  events_.push_back(port::Signalled{number, command_ != 0});
  if (command_ == 0) return;
  const bool to_group = witness_->saw(number);   // asked every time, because it also forgets
  // The kernel's own signals to us concern us (a broken pipe), but for the hang-up that only a session leader gets, and for a
  // key pressed before there was a command: its group had no witness yet.
  const bool from_a_process = signal.ssi_code <= 0;
  const bool key = number == SIGINT || number == SIGQUIT;
  // Who looks for names (pkill) hits us and the witness, and not the command; where that was meant, too, it ends by it anyway.
  if (to_group && from_a_process && would_end_by(number)) ::kill(command_, number);
  if (!to_group && (from_a_process || number == SIGHUP || (key && witness_->pid() > 0))) ::kill(command_, number);
}

// Whether the command would have ended, had it got this signal.
bool Foreground::would_end_by(int signal) const {
  static constexpr int fatal[] = {SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2};
  const auto status = read_file(fmt::format("/proc/{}/status", command_), 16384);
  if (std::ranges::find(fatal, signal) == std::end(fatal) || !status || !proc_numbers_are_ours()) return false;
  for (const std::string_view line : split_lines(*status))
    for (const std::string_view mask : {"SigBlk:", "SigIgn:", "SigCgt:"})
      if (line.starts_with(mask) && (parse_u64(trim(line.substr(mask.size())), 16).value_or(~0ull) >> (signal - 1) & 1) != 0)
        return false;
  return true;
}

void Foreground::reap() {
  bool stirred = false;
  for (;;) {
    siginfo_t how = {};
    if (::waitid(P_ALL, 0, &how, WEXITED | WSTOPPED | WNOHANG) != 0 || how.si_pid == 0) break;
    const bool exited = how.si_code == CLD_EXITED || how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED;
    if (exited) std::erase(strangers_, how.si_pid);   // another process may have its number next
    if (command_ != 0 && how.si_pid == command_) {
      if (exited) command_ended(how);
      else if (how.si_code == CLD_STOPPED) will_stop(how.si_status);
    } else if (exited) {
      if (how.si_pid == witness_->pid()) witness_->gone();
      stirred = true;
    }
  }
  for (port::CommandEvent& event : events_)      // after all that has ended with it
    if (auto* end = std::get_if<port::CommandEnded>(&event)) end->alone = is_childless();
  if (stirred && command_ == 0) events_.push_back(port::RestStirred{});
}

void Foreground::command_ended(const siginfo_t& how) {
  witness_->dismiss();
  command_ = 0;
  events_.push_back(port::CommandEnded{.how = how_ended(how)});
}

// Told first, and followed by the next wait.
void Foreground::will_stop(int signal) {
  // Without a terminal nobody would continue us, and whoever continues the command would leave us stopped beside it.
  if (signal == SIGSTOP && !our_terminal()) return;
  if (!std::exchange(stop_, signal)) events_.push_back(port::WeStop{});
}

void Foreground::follow_stop(int signal) {
  if (command_ == 0) {
    stop_self(signal);
    return;
  }
  if (goes_on()) return;
  const Fd terminal = our_terminal();
  // A command with a process group of its own (a shell) may have the terminal: the shell above must find it with us.
  const pid_t its_group = ::getpgid(command_), our_group = ::getpgrp();
  const bool lent = terminal && its_group > 0 && its_group != our_group && ::tcgetpgrp(terminal.get()) == its_group;
  if (lent) ::tcsetpgrp(terminal.get(), our_group);
  if (!stop_self(signal)) return;
  if (goes_on()) return;                         // the group was continued, and it with it
  if (lent && ::tcgetpgrp(terminal.get()) == our_group) ::tcsetpgrp(terminal.get(), its_group);
  // Who has joined another's group may have left it meanwhile, and the number be a stranger's.
  ::kill(its_group != our_group && its_group == command_ ? -command_ : command_, SIGCONT);
}

// The command is not stopped any more; where /proc hides it, nobody knows.
bool Foreground::goes_on() const {
  const auto command = proc_numbers_are_ours() ? read_process(command_) : std::nullopt;
  return command && command->state != 'T';
}

bool Foreground::stop_self(int signal) {
  sigset_t only, all, pending;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigfillset(&all);
  struct sigaction stop = {}, before = {};
  stop.sa_handler = SIG_DFL;
  if (signal != SIGSTOP) ::sigaction(signal, &stop, &before);
  ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);  // here we stand still
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  if (signal != SIGSTOP) ::sigaction(signal, &before, nullptr);
  ::sigpending(&pending);
  return sigismember(&pending, SIGCONT) == 1;
}

std::vector<std::string> Foreground::send(port::Bay, Signal signal, SentTo to) {
  const pid_t its_group = command_ > 0 ? ::getpgid(command_) : 0;
  if (signal == Signal::kill) end_what_is_beside_the_tree();
  std::vector<ProcessStat> told = tree();
  if (to == SentTo::group) std::erase_if(told, [&](const ProcessStat& process) { return process.group != its_group; });
  const int number = static_cast<int>(signal);
  const pid_t whole = its_group == command_ ? command_ : 0;
  return out_of_reach_.new_ones(signal_all(told_.not_yet(std::move(told), number), number, whole));
}

// KILL to what a picture of the tree may miss: what is in the cgroup; and what forks, which is frozen first, so that nothing
// can while it is being found. What is not found all the same has a group.
void Foreground::end_what_is_beside_the_tree() {
  cgroup_->kill();
  freeze_and_kill_groups([&](std::vector<ProcessStat>& others) { return tree(&others); });
}

port::Rest Foreground::look(port::Bay, port::Names names) {
  port::Rest rest;
  if (names == port::Names::yes) rest.spared = spared();
  const bool alone = is_childless();
  if (alone && (names == port::Names::no || command_ == 0)) return rest;
  if (!proc_numbers_are_ours()) {                // its numbers name strangers: nothing is looked for by them
    rest.left = alone ? Left::nothing : Left::unseen;
    return rest;
  }
  if (!alone) rest.left = Left::something;
  if (names == port::Names::no) return rest;
  for (const ProcessStat& process : tree()) rest.who.push_back({process.pid, process.name, describe_process(process)});
  return rest;
}

void Foreground::let_go(port::Bay) {
  cgroup_->remove();
  blocked_.reset();
}

// Whoever lives below us has a child of ours above it, for orphans become ours; and only we take a child off this list, by
// waiting for it. (A search of /proc may miss all of what forks and ends faster than it is read.)
bool Foreground::is_childless() const {
  siginfo_t any = {};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD) return true;
  if (!proc_numbers_are_ours()) return false;
  const auto children = listed_children();
  if (!children) return tree().empty();
  return std::ranges::all_of(*children, [&](pid_t child) {
    if (child == command_ || child == witness_->pid() || is_a_stranger(child) || is_of_a_queue(child) || is_of_a_lane(child))
      return true;
    if (!had_strangers_) return false;
    ProcessStat hidden;
    hidden.pid = child;
    hidden.hidden = true;
    return is_spared(read_process(child).value_or(hidden));
  });
}

bool Foreground::is_a_stranger(pid_t child) const { return std::ranges::find(strangers_, child) != strangers_.end(); }

bool Foreground::is_of_a_lane(pid_t child) const { return is_of_a_lost_lane(child, {&claim_, 1}); }

// What a shell has started that has become us by exec leaves us its children as the command does; so does who enters a
// container whose first process we are.
bool Foreground::is_spared(const ProcessStat& child) const {
  if (!had_strangers_ || claim_.empty()) return false;
  const Origin origin = origin_of(child, since_);
  return !origin.may_be_ours && !is_within(origin.claim, claim_);
}

std::vector<std::string> Foreground::spared() const {
  std::vector<std::string> words;
  if (!had_strangers_) return words;
  for (const ProcessStat& process : our_descendants())
    if (process.parent == ::getpid() && process.pid != witness_->pid() && is_spared(process) && !is_a_stranger(process.pid) &&
        !is_of_a_lane(process.pid))
      words.push_back(describe_process(process));
  return words;
}

// Our descendants but for the witness and those who are not the command's (`others`).
std::vector<ProcessStat> Foreground::tree(std::vector<ProcessStat>* others) const {
  std::vector<pid_t> apart = strangers_;
  apart.push_back(witness_->pid());
  std::vector<ProcessStat> ours;
  Newcomers newcomers;
  for (auto& process : our_descendants({{command_}})) {  // parents come before children
    const bool may_be_new = newcomers.may_be_one(process) && process.pid != command_;
    const bool is_apart = std::ranges::find(apart, process.pid) != apart.end() ||
                          std::ranges::find(apart, process.parent) != apart.end() ||
                          (may_be_new && (is_of_a_lane(process.pid) || (process.parent == ::getpid() && is_spared(process))));
    if (is_apart) apart.push_back(process.pid);
    if (!is_apart) ours.push_back(std::move(process));
    else if (others) others->push_back(std::move(process));
  }
  return ours;
}

}  // namespace thole::host
