#include "host/process/foreground.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/standard.hpp"
#include "base/stop_self.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

using std::chrono::steady_clock;

namespace {

Fd our_terminal() { return open_at(AT_FDCWD, "/dev/tty", O_RDWR | O_NOCTTY); }

enum class Doing { runs, waits_for_signals, other };

// Who waits for one of its blocked signals, in sigwait(3), for instance, has them not blocked meanwhile, nor when it has got
// one and has not had a processor since.
Doing doing(pid_t command) {
  const auto call = read_file(fmt::format("/proc/{}/syscall", command), 4096);
  if (!call) return Doing::other;
  if (call->starts_with("running")) return Doing::runs;
  const auto number = parse_u64(std::string_view(*call).substr(0, call->find(' ')));
  return number == std::uint64_t{SYS_rt_sigtimedwait} ? Doing::waits_for_signals : Doing::other;
}

// Neither blocked nor ignored nor caught.
bool takes_as_is(pid_t command, int signal) {
  const auto status = read_file(fmt::format("/proc/{}/status", command), 16384);
  if (!status) return false;
  for (const std::string_view line : split_lines(*status))
    for (const std::string_view mask : {"SigBlk:", "SigIgn:", "SigCgt:"})
      if (line.starts_with(mask) && (parse_u64(trim(line.substr(mask.size())), 16).value_or(~0ull) >> (signal - 1) & 1) != 0)
        return false;
  return true;
}

// Whether the command would have ended, had it got this signal. One that runs is looked at for a moment: it may have waited for
// that signal.
bool would_end_by(pid_t command, int signal) {
  static constexpr int fatal[] = {SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2};
  if (std::ranges::find(fatal, signal) == std::end(fatal) || !proc_numbers_are_ours()) return false;
  constexpr int most_looks = 50;                 // with a millisecond between two while it runs
  Doing before = Doing::runs;
  for (int looks = 0; looks < most_looks; ++looks) {
    const Doing now = doing(command);
    if (now == Doing::waits_for_signals) return false;
    if (before == Doing::other && now == Doing::other) return true;
    if (!takes_as_is(command, signal)) return false;
    if (now == Doing::runs) ::poll(nullptr, 0, 1);
    before = now;
  }
  return true;
}

// A session of its own (setsid) has nothing to do with our group.
bool is_in_our_session(pid_t command) { return ::getsid(command) == ::getsid(0); }

void pass_on(pid_t command, int number) { ::kill(::getpgid(command) == command ? -command : command, number); }

// A CONT that has come meanwhile was sent after the stop, and must not get there before it.
void tell(pid_t command, int number) {
  ::kill(command, number);
  if (is_stop(number) && is_pending(SIGCONT)) ::kill(command, SIGCONT);
}

// The command is not stopped any more; where /proc hides it, nobody knows.
bool goes_on(pid_t command) {
  const auto process = proc_numbers_are_ours() ? read_process(command) : std::nullopt;
  return process && process->state != 'T';
}

}  // namespace

sigset_t Foreground::signals() const {
  sigset_t watched;
  sigfillset(&watched);
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (inherited_.ignores(signal)) sigdelset(&watched, signal);
  return watched;
}

// What stops our group has not stopped a command that had not begun its program (Launch).
void Foreground::began(pid_t command) {
  for (const int signal : stop_signals)
    if (is_pending(signal)) tell(command, signal);
}

void Foreground::take(const signalfd_siginfo& signal, pid_t command, std::vector<port::CommandEvent>& events) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (command == 0 && number == SIGTSTP) return will_stop(number, events);   // with what it has left behind, for the shell
  events.push_back(port::Signalled{number, command != 0});
  if (command == 0) {
    if (number == SIGCONT && stop_) stop_ = 0;   // it was sent after that
    return;
  }
  const bool to_group = was_to_group(number);
  // The kernel's own signals to us concern us (a broken pipe), but for the hang-up that only a session leader gets, and for a
  // key pressed before there was a command: its group had no witness yet.
  const bool from_a_process = signal.ssi_code <= 0;
  // Its own group (timeout(1)) would have been the job's: `kill %1`, a hang-up, killpg. By who goes from process to process it
  // is signalled twice so, which ends no more than once.
  const bool has_left_our_group = ::getpgid(command) != ::getpgrp();
  if (to_group && is_in_our_session(command) && has_left_our_group) return pass_on(command, number);
  const bool key = number == SIGINT || number == SIGQUIT;
  // Who looks for names (pkill) hits us and the witness, and not the command; where that was meant, too, it ends by it anyway.
  if (to_group && from_a_process && is_in_our_session(command) && would_end_by(command, number)) ::kill(command, number);
  if (!to_group && (from_a_process || number == SIGHUP || (key && witness_->pid() > 0))) tell(command, number);
}

// Asked every time, because the witness forgets at that: also the second of two hang-ups, which come from the kernel and the
// shell at once.
bool Foreground::was_to_group(int number) {
  constexpr Millis twin{50};
  const SteadyTime now = steady_clock::now();
  if (!witness_->saw(number)) return number == SIGHUP && hung_up_ && now - *hung_up_ < twin;
  if (number == SIGHUP) hung_up_ = steady_clock::now();
  return true;
}

void Foreground::look_for_stops(pid_t command, std::vector<port::CommandEvent>& events) {
  if (command == 0) return;
  siginfo_t how{};
  if (::waitid(P_PID, static_cast<id_t>(command), &how, WSTOPPED | WNOHANG) == 0 && how.si_pid == command)
    will_stop(how.si_status, events);
}

void Foreground::ended(pid_t child) {
  if (child == witness()) witness_->gone();
}

// Told first, and followed by the next wait.
void Foreground::will_stop(int signal, std::vector<port::CommandEvent>& events) {
  // Without a terminal nobody would continue us, and whoever continues the command would leave us stopped beside it.
  if (signal == SIGSTOP && !our_terminal()) return;
  if (!std::exchange(stop_, signal)) events.push_back(port::WeStop{});
}

std::optional<port::WeSlept> Foreground::stand_still(pid_t command) {
  const auto signal = std::exchange(stop_, std::nullopt);
  if (!signal) return std::nullopt;
  const SteadyTime before = steady_clock::now();
  if (*signal != 0) follow_stop(*signal, command);
  return port::WeSlept{std::chrono::duration_cast<Millis>(steady_clock::now() - before)};
}

void Foreground::follow_stop(int signal, pid_t command) {
  if (command == 0) {
    stop_self(signal);
    return;
  }
  if (goes_on(command)) return;
  const Fd terminal = our_terminal();
  // A command with a process group of its own (a shell) may have the terminal: the shell above must find it with us.
  const pid_t its_group = ::getpgid(command), our_group = ::getpgrp();
  const bool lent = terminal && its_group > 0 && its_group != our_group && ::tcgetpgrp(terminal.get()) == its_group;
  if (lent) ::tcsetpgrp(terminal.get(), our_group);
  if (!stop_self(signal)) return;
  if (goes_on(command)) return;                  // the group was continued, and it with it
  if (lent && ::tcgetpgrp(terminal.get()) == our_group) ::tcsetpgrp(terminal.get(), its_group);
  // Who has joined another's group may have left it meanwhile, and the number be a stranger's.
  ::kill(its_group != our_group && its_group == command ? -command : command, SIGCONT);
}

}  // namespace thole::host
