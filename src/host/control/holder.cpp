#include "host/control/holder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/control/door.hpp"
#include "host/process/inherited_descriptors.hpp"

namespace thole::host {
namespace {

using std::chrono::steady_clock;

constexpr Millis between_outer_looks{2'000};   // at the claim around an inner one: nothing but a process is kept meanwhile
constexpr Seconds to_confirm{30};              // a caller is stopped in it, or nobody reads what it says

std::optional<SteadyTime> first_of(std::initializer_list<std::optional<SteadyTime>> times) {
  std::optional<SteadyTime> first;
  for (const auto& time : times)
    if (time && (!first || *time < *first)) first = time;
  return first;
}

[[noreturn]] void no_such_process(pid_t pid) {
  const int why = errno == ESRCH ? 0 : errno;   // said already
  throw Error(ErrorCode::usage, "there is no such process").about(std::to_string(pid)).because(why);
}

// What goes to the caller: 'm' and the message, or 'e' and the parts of an Error, each ended by a zero byte.
std::string failure_record(const Error& error) {
  std::string record = "e";
  for (const std::string& part : {std::to_string(static_cast<int>(error.code())), std::to_string(error.sys_errno()),
                                  std::string(error.what()), error.object(), error.hint()})
    record += part + '\0';
  return record;
}

[[noreturn]] void throw_failure(std::string_view record) {
  auto parts = split(record.substr(std::min<std::size_t>(1, record.size())), '\0');
  if (parts.size() < 5) throw Error(ErrorCode::internal, "the process that should hold the claim ended early");
  auto number = [&](std::size_t i) { return static_cast<int>(parse_u64(parts[i]).value_or(0)); };
  throw Error(static_cast<ErrorCode>(number(0)), std::string(parts[2]))
      .about(std::string(parts[3])).because(number(1)).hint(std::string(parts[4]));
}

// Holds until the end comes, whichever it is; the claim is free on return.
class Holder {
 public:
  Holder(Fd process, port::ToHold held);   // process: a pidfd of the one that the claim is for, or none
  void run(Fd caller);        // who is to confirm the claim

 private:
  bool over();                // waits for one event; true at the end
  bool hears_caller();        // true when it confirms nothing any more
  void wait_for_overdue(Fd note);
  void set_end(std::optional<WallTime> until);
  bool outer_has_ended();

  port::ToHold held_;
  std::unique_ptr<Door> door_;
  Fd process_, signals_, caller_;   // caller_: until it has confirmed
  std::optional<SteadyTime> confirmed_by_;
  std::optional<SteadyTime> end_, look_;   // look_: next at the claim around this one
  bool out_of_time_ = false;
};

Holder::Holder(Fd process, port::ToHold held) : held_(std::move(held)), process_(std::move(process)) {
  held_.door.about.pid = ::getpid();
  held_.door.about.holder = true;
  held_.door.locks = held_.claim.descriptors();
  door_ = std::make_unique<Door>(held_.door);
  set_end(held_.door.about.until);
  sigset_t ending;
  sigemptyset(&ending);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&ending, signal);
  signals_ = Fd(above_standard(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!signals_) throw Error(ErrorCode::internal, "cannot watch for signals").because(errno);
}

// Declared ends are times of day; waiting is by the steady clock, which nobody sets.
void Holder::set_end(std::optional<WallTime> until) {
  end_.reset();
  if (until) end_ = steady_clock::now() + (*until - std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()));
}

// An inner claim is worth nothing without the outer one: nobody could name it any more, to release it.
bool Holder::outer_has_ended() {
  if (!look_ || steady_clock::now() < *look_) return false;
  look_.reset();
  try {
    return !held_.outer_lives();
  } catch (const Error&) {   // cannot be read now
    return false;
  }
}

bool Holder::hears_caller() {
  char confirmed = 0;
  const ssize_t n = ::recv(caller_.get(), &confirmed, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n != 1) return true;   // nobody knows of this claim
  caller_.reset();
  confirmed_by_.reset();
  return false;
}

bool Holder::over() {
  pollfd watched[] = {{door_->fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0},
                      {caller_.get(), POLLIN, 0}};
  if (held_.outer_lives && !look_) look_ = steady_clock::now() + between_outer_looks;
  ::poll(watched, 4, poll_timeout(first_of({end_, look_, confirmed_by_}), steady_clock::now()));  // a negative one is skipped
  if (watched[3].revents && hears_caller()) return true;
  if (watched[0].revents) {
    auto order = door_->serve();
    if (order.until) set_end(order.until);
    if (order.end) return true;
  }
  if (watched[1].revents || watched[2].revents || outer_has_ended()) return true;
  if (confirmed_by_ && steady_clock::now() >= *confirmed_by_) return true;
  if (!end_ || steady_clock::now() < *end_) return false;
  out_of_time_ = true;
  return true;
}

void Holder::run(Fd caller) {
  caller_ = std::move(caller);
  confirmed_by_ = steady_clock::now() + to_confirm;
  while (!over()) {}
  if (held_.ending) held_.ending();
  const bool outlived = out_of_time_ && process_ && !caller_ && held_.overdue;
  Fd note = outlived ? held_.claim.release_to_note() : Fd();
  held_.claim.release();
  if (outlived && !held_.overdue()) note.reset();   // the claim goes on in a command that has joined it
  door_->let_go();
  door_.reset();
  if (note) wait_for_overdue(std::move(note));
}

// The units are free. As long as the note says so, everybody is told whose process still uses them.
void Holder::wait_for_overdue(Fd note) {
  pollfd watched[] = {{process_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  while (::poll(watched, 2, -1) < 0 && errno == EINTR) {}
  note.reset();
}

// Nothing is claimed for a process that has ended meanwhile.
port::ToHold acquired(const std::function<port::ToHold()>& acquire, const Fd& process, const port::HoldSpec& spec) {
  const auto must_live = [&] {
    if (process && is_readable(process.get()))
      throw Error(ErrorCode::unavailable, "the process that the claim was for has ended").about(std::to_string(*spec.process));
  };
  try {
    port::ToHold held = acquire();
    must_live();
    return held;
  } catch (const Error&) {
    must_live();
    throw;
  }
}

// The child's life. It never returns into the caller's program.
[[noreturn]] void be_holder(const port::HoldSpec& spec, pid_t whose, Fd caller,
                            const std::function<port::ToHold(const port::HoldCaller&)>& acquire) {
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);  // progress may go to a terminal that is gone
  ::prctl(PR_SET_NAME, spec.for_shell ? holder_for_shell : holder_name);
  try {
    Fd made_for;                                 // from now on: after a long wait its number may be a stranger's
    if (spec.process && !(made_for = open_pidfd(*spec.process))) no_such_process(*spec.process);
    const auto is_stopped = [whose] {
      const auto process = process_state(whose);
      return process && ::getppid() == whose && host::is_stopped(*process);
    };
    port::ToHold held = acquired([&] { return acquire({caller.get(), made_for.get(), is_stopped}); }, made_for, spec);
    const std::string message = "m" + held.message;
    std::optional<Holder> holder(std::in_place, std::move(made_for), std::move(held));
    leave_caller();
    const bool sent =
        ::send(caller.get(), message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size()) &&
        ::shutdown(caller.get(), SHUT_WR) == 0;
    if (sent) holder->run(std::move(caller));   // else nobody knows of this claim: it ends with us
    holder.reset();  // frees the claim and closes the door
    ::_exit(0);
  } catch (const Error& error) {
    const std::string record = failure_record(error);
    ::send(caller.get(), record.data(), record.size(), MSG_NOSIGNAL);
  } catch (const std::bad_alloc&) {
    const std::string record = failure_record(out_of_memory());
    ::send(caller.get(), record.data(), record.size(), MSG_NOSIGNAL);
  } catch (const std::exception& error) {
    const std::string record = failure_record(Error(ErrorCode::internal, error.what()));
    ::send(caller.get(), record.data(), record.size(), MSG_NOSIGNAL);
  }
  ::_exit(1);
}

// The whole record; "" when the holder ended without one, or when a signal asks us to stop.
std::string wait_for_record(int holder, Interruption& interruption, std::optional<int>& signal) {
  std::string record;
  for (;;) {
    pollfd watched[] = {{holder, POLLIN, 0}, {interruption.fd(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents && (signal = interruption.taken())) return "";
    if (!watched[0].revents) continue;
    char buffer[4096];
    const ssize_t n = ::recv(holder, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return record;
    record.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string start_holder(const port::HoldSpec& spec, const InheritedSignals& inherited,
                         const std::function<port::ToHold(const port::HoldCaller&)>& acquire) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw not_started("the process that holds the claim", errno);
  Fd ours(above_standard(ends[0])), theirs(above_standard(ends[1]));
  // The holder keeps these blocked and reads them from a descriptor.
  std::optional<Interruption> interruption(std::in_place, inherited);
  const pid_t me = ::getpid(), pid = ::fork();
  if (pid < 0) throw not_started("the process that holds the claim", errno);
  if (pid == 0) {
    ours.reset();
    be_holder(spec, me, std::move(theirs), acquire);
  }
  theirs.reset();
  std::optional<int> signal;
  const std::string record = wait_for_record(ours.get(), *interruption, signal);
  const auto give_back = [&] {
    ours.reset();
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}  // it leaves the line first
  };
  if (record.starts_with('m')) {
    std::string message = record.substr(1);
    try {
      interruption.reset();   // a terminal that is stopped keeps nobody from ending us
      if (spec.tell) spec.tell(message);
    } catch (...) {
      give_back();
      throw;
    }
    if (::send(ours.get(), "", 1, MSG_NOSIGNAL) == 1) return message;
    give_back();
    throw Error(ErrorCode::unavailable, "the claim was lost: the process that held it has ended");
  }
  give_back();
  if (signal) {
    ::kill(::getpid(), *signal);  // blocked here, delivered when `interruption` ends: the program dies by it, or notices it
    throw Error(ErrorCode::interrupted, "interrupted");
  }
  throw_failure(record);
}

}  // namespace thole::host
