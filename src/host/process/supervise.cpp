#include "host/process/supervise.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using std::chrono::steady_clock;

class Supervisor {
 public:
  Supervisor(pid_t command, const port::SupervisePolicy& policy, const InheritedSignals& inherited,
             const FromBefore& before, Witness& witness, JobCgroup& cgroup);
  port::Ended run();

 private:
  enum class Phase { running, settling, lingering, ending, over };

  void wait_for_events();
  void take_signals();
  void take_signal(const signalfd_siginfo& signal);
  void interrupt_rest();
  void reap();
  void command_ended(const siginfo_t& how);
  void follow_stop(int signal);
  bool stop_self(int signal);           // false when nothing stopped us (an orphaned group)
  void obey(const port::Order& order);
  void deadline_passed();
  void next_step_against_command();
  void look_at_rest();                  // is anything left of the tree?
  bool is_childless() const;
  void name_rest();
  void leave_unseen();
  void next_step_against_rest();
  void kill_rest();
  bool is_of_a_lane(pid_t child) const;
  bool is_spared(const ProcessStat& child) const;
  void tell_spared() const;
  std::vector<ProcessStat> tree(std::vector<ProcessStat>* others = nullptr) const;
  void signal_these(const std::vector<ProcessStat>& processes, int signal, pid_t whole = 0);
  void say_ending(pid_t pid, std::optional<SteadyTime> killed) const;

  const pid_t command_;
  const port::SupervisePolicy& policy_;
  const InheritedSignals& inherited_;
  std::vector<pid_t> strangers_;         // children that were there before the command, until they have ended
  const bool had_strangers_ = !strangers_.empty() || ::getpid() == 1;   // the first of a container gets everybody's orphans
  const std::uint64_t since_;            // what was started earlier is none of the command's
  Fd signals_;
  Witness& witness_;
  JobCgroup& cgroup_;
  Phase phase_ = Phase::running;
  int step_ = 0;                        // signals sent so far towards the end of the command, or of the rest
  std::optional<SteadyTime> deadline_;  // of the next step
  std::optional<SteadyTime> give_up_;   // when even SIGKILL does not help (another user's process, a hung driver)
  std::vector<pid_t> told_;             // of the rest, those that got TERM
  ToldOnce out_of_reach_;
  port::Ended ended_;
};

Supervisor::Supervisor(pid_t command, const port::SupervisePolicy& policy, const InheritedSignals& inherited,
                       const FromBefore& before, Witness& witness, JobCgroup& cgroup)
    : command_(command), policy_(policy), inherited_(inherited), strangers_(before.children), since_(before.ticks),
      witness_(witness), cgroup_(cgroup) {
  sigset_t watched;
  sigfillset(&watched);
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (inherited_.ignores(signal) && signal != SIGCHLD) sigdelset(&watched, signal);  // ignored they stay, here and there
  signals_ = Fd(above_standard(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!signals_) throw not_had("cannot watch over the command", errno);
  if (policy_.time_limit) deadline_ = steady_clock::now() + *policy_.time_limit;
}

port::Ended Supervisor::run() {
  reap();
  while (phase_ != Phase::over) {
    wait_for_events();
    if (deadline_ && steady_clock::now() >= *deadline_) deadline_passed();
  }
  tell_spared();
  return std::move(ended_);
}

void Supervisor::wait_for_events() {
  const int timeout = poll_timeout(deadline_, steady_clock::now());
  pollfd watched[] = {{signals_.get(), POLLIN, 0}, {policy_.control, POLLIN, 0}};
  if (::poll(watched, policy_.control >= 0 && policy_.serve ? 2 : 1, timeout) <= 0) return;
  if (watched[1].revents) obey(policy_.serve());
  if (watched[0].revents) take_signals();
}

void Supervisor::take_signals() {
  signalfd_siginfo signal;
  while (phase_ != Phase::over && ::read(signals_.get(), &signal, sizeof signal) == sizeof signal) take_signal(signal);
}

void Supervisor::take_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD) return reap();
  if (phase_ != Phase::running) {
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) interrupt_rest();
    return;
  }
  const bool to_group = witness_.saw(number);  // asked every time, because it also forgets
  // The kernel's own signals to us concern us (a broken pipe), but for the hang-up that only a session leader gets, and for a
  // key pressed before there was a command: its group had no witness yet.
  const bool from_a_process = signal.ssi_code <= 0;
  const bool key = number == SIGINT || number == SIGQUIT;
  if (!to_group && (from_a_process || number == SIGHUP || (key && witness_.pid() > 0))) ::kill(command_, number);
}

// The first interrupt ends the lingering, the next one the patience.
void Supervisor::interrupt_rest() {
  if (phase_ == Phase::settling) return;
  if (phase_ == Phase::lingering) phase_ = Phase::ending;
  next_step_against_rest();
}

void Supervisor::reap() {
  for (;;) {
    siginfo_t how = {};
    if (::waitid(P_ALL, 0, &how, WEXITED | WSTOPPED | WNOHANG) != 0 || how.si_pid == 0) break;
    const bool exited = how.si_code == CLD_EXITED || how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED;
    if (exited) std::erase(strangers_, how.si_pid);   // another process may have its number next
    if (how.si_pid == command_) {
      if (exited) command_ended(how);
      else if (how.si_code == CLD_STOPPED) follow_stop(how.si_status);
    } else if (exited && how.si_pid == witness_.pid()) {
      witness_.gone();
    }
  }
  if (phase_ != Phase::running) look_at_rest();
}

void Supervisor::command_ended(const siginfo_t& how) {
  if (how.si_code == CLD_EXITED) ended_.exit_code = how.si_status;
  else ended_.signal = how.si_status;
  ended_.core = how.si_code == CLD_DUMPED;
  witness_.dismiss();
  phase_ = Phase::settling;
  deadline_ = steady_clock::now() + port::settling_time;
  step_ = 0;
}

void Supervisor::follow_stop(int signal) {
  Fd terminal = open_at(AT_FDCWD, "/dev/tty", O_RDWR | O_NOCTTY);
  // Without a terminal nobody would continue us, and whoever continues the command would leave us stopped beside it.
  if (signal == SIGSTOP && !terminal) return;
  // A command with a process group of its own (a shell) may have the terminal: the shell above must find it with us.
  const pid_t its_group = ::getpgid(command_), our_group = ::getpgrp();
  const bool lent = terminal && its_group > 0 && its_group != our_group && ::tcgetpgrp(terminal.get()) == its_group;
  if (lent) ::tcsetpgrp(terminal.get(), our_group);
  if (!stop_self(signal)) return;
  auto command = proc_numbers_are_ours() ? read_process(command_) : std::nullopt;
  if (command && command->state != 'T') return;  // the group was continued, and it with it (or /proc hides it: once more)
  if (lent && ::tcgetpgrp(terminal.get()) == our_group) ::tcsetpgrp(terminal.get(), its_group);
  // Who has joined another's group may have left it meanwhile, and the number be a stranger's.
  ::kill(its_group != our_group && its_group == command_ ? -command_ : command_, SIGCONT);
}

bool Supervisor::stop_self(int signal) {
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

void Supervisor::obey(const port::Order& order) {
  if (phase_ != Phase::running || step_ > 0) return;
  if (order.until) {
    auto left = *order.until - std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now());
    deadline_ = steady_clock::now() + left;
  }
  if (!order.end) return;
  ended_.released = true;
  next_step_against_command();
}

void Supervisor::deadline_passed() {
  deadline_.reset();
  switch (phase_) {
    case Phase::running:
      if (step_ == 0) ended_.time_limit = true;
      return next_step_against_command();
    case Phase::settling: return name_rest();
    case Phase::ending: return next_step_against_rest();
    case Phase::lingering: case Phase::over: return;
  }
}

void Supervisor::next_step_against_command() {
  static constexpr int steps[] = {SIGINT, SIGTERM, SIGKILL};
  const int signal = steps[std::min(step_++, 2)];
  const pid_t its_group = ::getpgid(command_);
  if (signal == SIGKILL) cgroup_.kill();  // what moved to another cgroup is found in the tree
  std::vector<ProcessStat> told = tree();
  if (signal == SIGINT) std::erase_if(told, [&](const ProcessStat& process) { return process.group != its_group; });
  signal_these(told, signal, its_group == command_ ? command_ : 0);
  const SteadyTime now = steady_clock::now();
  deadline_ = now + policy_.patience;
  say_ending(command_, now + policy_.patience * std::max(0, 3 - step_));
}

void Supervisor::say_ending(pid_t pid, std::optional<SteadyTime> killed) const {
  if (!policy_.on_ending) return;
  const auto process = proc_numbers_are_ours() ? read_process(pid) : std::nullopt;
  policy_.on_ending({pid, process ? process->name : std::string(), killed});
}

void Supervisor::look_at_rest() {
  if (is_childless()) { phase_ = Phase::over; return; }
  if (phase_ == Phase::ending && step_ == 1)
    for (const auto& process : tree())  // those that were started since
      if (std::ranges::find(told_, process.pid) == told_.end()) {
        told_.push_back(process.pid);
        signal_these({process}, SIGTERM);
      }
}

// Whoever lives below us has a child of ours above it, for orphans become ours; and only we take a child off this list, by
// waiting for it. (A search of /proc may miss all of what forks and ends faster than it is read.)
bool Supervisor::is_childless() const {
  siginfo_t any = {};
  if (!proc_numbers_are_ours()) return ::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  const auto children = listed_children();
  if (!children) return tree().empty();
  return std::ranges::all_of(*children, [&](pid_t child) {
    if (child == witness_.pid() || std::ranges::find(strangers_, child) != strangers_.end() || is_of_a_queue(child) ||
        is_of_a_lane(child))
      return true;
    if (!had_strangers_) return false;
    ProcessStat hidden;
    hidden.pid = child;
    hidden.hidden = true;
    return is_spared(read_process(child).value_or(hidden));
  });
}

void Supervisor::name_rest() {
  if (is_childless()) { phase_ = Phase::over; return; }
  if (!proc_numbers_are_ours()) return leave_unseen();
  const std::vector<ProcessStat> rest = tree();
  for (const auto& process : rest) ended_.left_behind.push_back(describe_process(process));
  if (policy_.linger && !rest.empty()) say_ending(rest.front().pid, std::nullopt);
  if (policy_.on_left_behind && !ended_.left_behind.empty()) policy_.on_left_behind(ended_.left_behind);
  phase_ = policy_.linger ? Phase::lingering : Phase::ending;
  if (phase_ == Phase::ending) next_step_against_rest();
}

// Another pid namespace's numbers name strangers: nothing is looked for by them.
void Supervisor::leave_unseen() {
  if (witness_.pid() > 0) {   // dismissed, and not gone yet
    deadline_ = steady_clock::now() + port::settling_time;
    return;
  }
  if (policy_.on_unseen) policy_.on_unseen();
  phase_ = policy_.linger ? Phase::lingering : Phase::over;
}

void Supervisor::next_step_against_rest() {
  const auto now = steady_clock::now();
  if (step_++ == 0) {
    const std::vector<ProcessStat> rest = tree();
    for (const auto& process : rest) told_.push_back(process.pid);
    signal_these(rest, SIGTERM);
    deadline_ = now + policy_.patience;
    if (!rest.empty()) say_ending(rest.front().pid, deadline_);
    return;
  }
  if (!give_up_) give_up_ = now + std::max(policy_.patience, port::killed_end);
  kill_rest();
  deadline_ = now + port::kill_again;
  if (now >= *give_up_) phase_ = Phase::over;
  else reap();
}

// What is not in the cgroup is frozen first, so that nothing can fork while it is being found; what is not found all the same
// has a group.
void Supervisor::kill_rest() {
  cgroup_.kill();
  GroupsBelow groups;
  freeze([&] {
    std::vector<ProcessStat> others, its = tree(&others);
    groups.saw(its, others);
    return its;
  });
  groups.kill();
  signal_these(tree(), SIGKILL);
}

void Supervisor::signal_these(const std::vector<ProcessStat>& processes, int signal, pid_t whole) {
  out_of_reach_.tell(signal_all(processes, signal, whole), policy_.on_out_of_reach);
}

bool Supervisor::is_of_a_lane(pid_t child) const { return is_of_a_lost_lane(child, {&policy_.claim, 1}); }

// What a shell has started that has become us by exec leaves us its children as the command does; so does who enters a
// container whose first process we are.
bool Supervisor::is_spared(const ProcessStat& child) const {
  if (!had_strangers_ || policy_.claim.empty()) return false;
  const Origin origin = origin_of(child, since_);
  return !origin.may_be_ours && !is_within(origin.claim, policy_.claim);
}

void Supervisor::tell_spared() const {
  if (!had_strangers_ || !policy_.on_spared) return;
  std::vector<std::string> words;
  for (const ProcessStat& process : our_descendants())
    if (process.parent == ::getpid() && process.pid != witness_.pid() && is_spared(process) &&
        std::ranges::find(strangers_, process.pid) == strangers_.end() && !is_of_a_lane(process.pid))
      words.push_back(describe_process(process));
  if (!words.empty()) policy_.on_spared(words);
}

// Our descendants but for the witness and those who are not the command's (`others`).
std::vector<ProcessStat> Supervisor::tree(std::vector<ProcessStat>* others) const {
  std::vector<pid_t> apart = strangers_;
  apart.push_back(witness_.pid());
  const pid_t command = phase_ == Phase::running ? command_ : 0;
  std::vector<ProcessStat> ours;
  for (auto& process : our_descendants({{command}})) {  // parents come before children
    const bool is_apart = std::ranges::find(apart, process.pid) != apart.end() ||
                          std::ranges::find(apart, process.parent) != apart.end() ||
                          (process.parent == ::getpid() && process.pid != command &&
                           (is_of_a_lane(process.pid) || is_spared(process)));
    if (is_apart) apart.push_back(process.pid);
    if (!is_apart) ours.push_back(std::move(process));
    else if (others) others->push_back(std::move(process));
  }
  return ours;
}

}  // namespace

port::Ended supervise_command(pid_t command, const port::SupervisePolicy& policy, const InheritedSignals& inherited,
                              const FromBefore& before, Witness& witness, JobCgroup& cgroup) {
  return Supervisor(command, policy, inherited, before, witness, cgroup).run();
}

}  // namespace thole::host
