// How this works. Parent and probe talk over a socket pair that is the probe's descriptors 0 and 1; lines both ways, a lone "."
// ends an answer. One question of this user is asked at a time (asking.hpp).
//
// The complete answers are kept in `<name>.last`. They are shown, with their age, while the driver does not answer; and a run
// that had to wait for the lock takes the answer of the same question that was asked after its own would have been.
//
// A probe that is slow when the patience is over, and not stuck, is not killed: it goes on, we keep the lock, and the same
// question asked again hears the rest. A program that ends hangs up on it, and the probe decides whether to leave; within a
// process that lives on it is killed, because a child that nobody knows of does not belong there.
#include "host/probe/runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/printable_lines.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/probe/channel.hpp"
#include "host/process/helpers.hpp"
#include "host/process/spawn_tables.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t longest_probe_line = 1u << 20, longest_answer = 16u << 20;  // a probe gone mad must not fill our memory
constexpr int kill_patience_ms = 100;
constexpr const char *answered = ".last", *late_answer = ".late";   // files

std::int64_t monotonic_ms() { return std::chrono::duration_cast<Millis>(Clock::now().time_since_epoch()).count(); }

WallTime wall_now() { return std::chrono::floor<Millis>(std::chrono::system_clock::now()); }

// Gives our lock back, unless the lock was left to an abandoned probe (then there is none here any more) or a question is open.
template <class Question>
struct GiveBack {
  const AskingLock& lock;
  const std::optional<Question>& open;
  ~GiveBack() { if (!open) lock.give_back(); }
};

}  // namespace

ProbeOutcome ProbeRunner::ask(const std::string& request, Millis patience, const OnRecord& on_record, AnswerFor whom,
                              const StillComing& still_coming) {
  SteadyTime deadline = Clock::now() + patience;
  std::int64_t asked_ms = monotonic_ms();
  if (pending_ && pending_->request != request) discard();
  const bool again = pending_.has_value();
  if (!again)
    if (auto outcome = take_lock(deadline)) return *outcome;
  GiveBack<Pending> lock{asking_, pending_};
  if (!again && whom == AnswerFor::all)
    if (auto outcome = replay_if_newer(request, asked_ms, on_record)) return *outcome;
  Pending question = again ? *std::exchange(pending_, std::nullopt) : Pending{request, {}, monotonic_ms()};
  for (const std::string& line : question.lines) on_record(line);
  ProbeOutcome outcome = again ? hear(question, deadline, on_record, still_coming)
                               : put(question, deadline, on_record, still_coming);
  const bool is_all = outcome.end == ProbeOutcome::End::complete;
  const bool is_late = outcome.end == ProbeOutcome::End::timed_out && !pending_;
  if (whom == AnswerFor::all && (is_all || is_late)) remember(question, is_all ? answered : late_answer);
  return outcome;
}

// Without a usable runtime directory there is none to take.
std::optional<ProbeOutcome> ProbeRunner::take_lock(SteadyTime deadline) {
  if (options_.runtime_dir.empty()) return std::nullopt;
  if (!asking_.has_file()) {
    make_directory(options_.runtime_dir, 0700);
    if (!has_memory()) return std::nullopt;
  }
  auto occupied = asking_.take(deadline);
  if (!occupied) return std::nullopt;
  return ProbeOutcome{ProbeOutcome::End::occupied, std::move(occupied->why), occupied->since};
}

std::string ProbeRunner::no_probe(int sys_errno) const {
  Error error = not_started("the probe", sys_errno);
  return in_one_line((is_want(sys_errno) ? std::move(error) : std::move(error).about(options_.program)).full());
}

// Spawns the probe in a session of its own. Returns why that failed.
std::optional<std::string> ProbeRunner::start() {
  if (options_.program.empty()) return "no program to run the probe with";
  asking_.asks(0);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return no_probe(errno);
  Fd ours(above_standard(ends[0])), theirs(above_standard(ends[1]));
  // Sources of dup2 must not be its targets, or a later action overwrites them.
  theirs = Fd(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 10));
  Fd lock = asking_.has_file() ? Fd(::fcntl(asking_.descriptor(), F_DUPFD_CLOEXEC, 10)) : Fd();
  if (!theirs || (asking_.has_file() && !lock)) return no_probe(errno);

  SpawnTables t;
  ::posix_spawn_file_actions_adddup2(&t.actions, theirs.get(), 0);
  ::posix_spawn_file_actions_adddup2(&t.actions, theirs.get(), 1);
  ::posix_spawn_file_actions_addopen(&t.actions, 2, "/dev/null", O_WRONLY, 0);
  if (lock) ::posix_spawn_file_actions_adddup2(&t.actions, lock.get(), lock_fd_in_probe);
  std::vector<std::string> words{options_.program};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  StartingHelper starting;
  if (int error = ::posix_spawn(&pid_, options_.program.c_str(), &t.actions, &t.attributes, pointers(words).data(), environ)) {
    pid_ = 0;
    return no_probe(error);
  }
  starting.started(pid_);
  channel_ = std::move(ours);
  buffer_.clear();
  return std::nullopt;
}

// Starts a probe where there is none, sends the question and hears the answer.
ProbeOutcome ProbeRunner::put(Pending& question, SteadyTime deadline, const OnRecord& on_record,
                              const StillComing& still_coming) {
  for (bool was_warm = warm();; was_warm = false) {
    if (!warm())
      if (auto why = start()) return {ProbeOutcome::End::not_started, *why, {}};
    asking_.asks(pid_);
    std::string line = question.request + "\n";
    ProbeOutcome outcome{ProbeOutcome::End::crashed, "", {}};
    if (::send(channel_.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
      outcome.detail = describe_end();
    else outcome = hear(question, deadline, on_record, still_coming);
    // An idle probe leaves by itself; that may cross our question.
    if (outcome.end != ProbeOutcome::End::crashed || !was_warm || !question.lines.empty()) return outcome;
  }
}

ProbeOutcome ProbeRunner::hear(Pending& question, SteadyTime deadline, const OnRecord& on_record,
                               const StillComing& still_coming) {
  const SteadyTime over = deadline;
  std::size_t taken = 0;
  for (;;) {
    pollfd p{channel_.get(), POLLIN, 0};
    int ready = ::poll(&p, 1, poll_timeout(deadline, Clock::now()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      const bool is_silent = question.lines.empty() && monotonic_ms() - question.began_ms > options_.longest_silence.count();
      if (is_silent || !still_coming || !still_coming()) return give_up();
      pending_ = std::move(question);
      return late();
    }
    char bytes[16384];
    ssize_t n = ::recv(channel_.get(), bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {ProbeOutcome::End::crashed, describe_end(), {}};
    buffer_.append(bytes, static_cast<std::size_t>(n));
    taken += static_cast<std::size_t>(n);
    if (buffer_.size() > longest_probe_line || taken > longest_answer) {
      discard();
      return {ProbeOutcome::End::crashed, "it sent endless data", {}};
    }
    std::size_t begin = 0;
    for (std::size_t end; (end = buffer_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string record = buffer_.substr(begin, end - begin);
      if (record == ".") {
        buffer_.clear();
        return {};
      }
      const auto shorter = on_record(record);
      deadline = shorter ? std::min(over, Clock::now() + *shorter) : over;
      question.lines.push_back(std::move(record));
    }
    buffer_.erase(0, begin);
  }
}

ProbeOutcome ProbeRunner::late() const {
  return {ProbeOutcome::End::timed_out, "it did not answer in time", asking_.asked_since().value_or(wall_now())};
}

ProbeOutcome ProbeRunner::give_up() {
  ProbeOutcome outcome = late();
  pid_t pid = pid_;
  discard();
  if (::kill(pid, 0) == 0 || errno == EPERM)
    outcome.detail = "process " + std::to_string(pid) + " is stuck in the driver and cannot be killed";
  return outcome;
}

ProbeRunner::~ProbeRunner() {
  if (!pending_ || !options_.outlives) discard();          // else it keeps the lock by its own copy for as long as it works
}

void ProbeRunner::discard() {
  pending_.reset();
  if (pid_ == 0) return;
  pid_t pid = std::exchange(pid_, 0);
  channel_.reset();
  const Fd alive = open_pidfd(pid);
  kill_child(pid);
  pollfd p{alive.get(), POLLIN, 0};
  if (alive) ::poll(&p, 1, kill_patience_ms);
  if (::waitpid(pid, nullptr, WNOHANG) == 0) return asking_.leave_to(pid);
  helper_ended(pid);                                       // reaped, or somebody else's SIGCHLD handling did
  asking_.give_back();                                     // which an open question had kept
}

// How the probe ended by itself; reaps it.
std::string ProbeRunner::describe_end() {
  const Fd alive = open_pidfd(pid_);
  pollfd p{alive.get(), POLLIN, 0};
  if (alive) ::poll(&p, 1, kill_patience_ms);
  int status = 0;
  pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) {                                       // it closed its descriptors but lives
    discard();
    return "it closed its output";
  }
  helper_ended(std::exchange(pid_, 0));
  channel_.reset();
  if (reaped < 0) return "it ended";
  if (WIFSIGNALED(status)) return "it was killed by signal " + std::to_string(WTERMSIG(status));
  return "it ended with status " + std::to_string(WEXITSTATUS(status));
}

// In /tmp somebody else may have made the directory first; then nothing in it is believed, nor written there.
bool ProbeRunner::has_memory() const {
  struct stat s;
  return !options_.runtime_dir.empty() && ::lstat(options_.runtime_dir.c_str(), &s) == 0 && S_ISDIR(s.st_mode) &&
         s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<LastAnswer> ProbeRunner::last_answer() const { return kept_answer(answered); }

std::optional<LastAnswer> ProbeRunner::kept_answer(const char* which) const {
  if (!has_memory()) return std::nullopt;
  auto text = read_file(file(which), longest_answer);
  if (!text) return std::nullopt;
  auto lines = split_lines(*text);
  if (lines.size() < 3 || lines.back() != ".") return std::nullopt;
  auto head = split(lines[0], ' ');                        // "BOOT-ID BEGAN-MS", of the monotonic clock
  if (head.size() != 2 || head[0] != boot_id()) return std::nullopt;
  auto began = parse_u64(head[1]);
  if (!began || static_cast<std::int64_t>(*began) > monotonic_ms()) return std::nullopt;
  LastAnswer last;
  last.request = lines[1];
  last.lines.assign(lines.begin() + 2, lines.end() - 1);
  last.age = Millis(monotonic_ms() - static_cast<std::int64_t>(*began));
  return last;
}

// Also where that one was not answered in time: else many who wait for a driver that hangs would have to do so one by one.
std::optional<ProbeOutcome> ProbeRunner::replay_if_newer(const std::string& request, std::int64_t asked_ms,
                                                         const OnRecord& on_record) const {
  if (!asking_.has_file() || monotonic_ms() - asked_ms < 2) return std::nullopt;  // no wait: nobody asked meanwhile
  for (const char* which : {answered, late_answer}) {
    const auto kept = kept_answer(which);
    if (!kept || kept->request != request || monotonic_ms() - kept->age.count() < asked_ms) continue;
    for (const std::string& line : kept->lines) on_record(line);
    return which == late_answer ? late() : ProbeOutcome{};
  }
  return std::nullopt;
}

void ProbeRunner::remember(const Pending& question, const char* which) const {
  if (!asking_.has_file()) return;
  std::string text = boot_id() + " " + std::to_string(question.began_ms) + "\n" + question.request + "\n";
  for (const std::string& line : question.lines) text += line + "\n";
  text += ".\n";
  try {
    write_file(file(which), text, 0600);
  } catch (const Error&) {
    // A full disk costs the memory of this answer, nothing else.
  }
}

}  // namespace thole::host
